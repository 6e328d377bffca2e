// SPDX-License-Identifier: Apache-2.0

package kayenta

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The example of R's documentation of wilcox.test: permeability constants of the human chorioamnion (Hollander & Wolfe
// 1973, 69f.). There, W is 35, and p is 0.1103 by the approximation for large samples without correction.
func TestExampleOfR(t *testing.T) {
	t.Parallel()
	x := []float64{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46}
	y := []float64{1.15, 0.88, 0.90, 0.74, 1.21}
	sum, ties := ranks(x, y, 0)
	if w := sum - 55; w != 35 || ties != 0 {
		t.Errorf("W is %v, with ties %v", w, ties)
	}
	sigma := math.Sqrt(10 * 5 * 16 / 12.)
	if p := math.Erfc((Statistic(x, y, 0)+.5/sigma)/math.Sqrt2) / 2; math.Abs(p-.1103) > 5e-5 {
		t.Errorf("p is %.4f", p)
	}
}

// The other example there, of ties and of an interval: ozone in New York in May and August 1973 (R's data set
// airquality). R prints W = 127.5, p-value = 0.0001208 and, with conf.int = TRUE, an interval of 95 % from -53 to -15
// with the estimate -32, each as its solver finds it, within 1e-4.
func TestIntervalOfR(t *testing.T) {
	t.Parallel()
	may := []float64{41, 36, 12, 18, 28, 23, 19, 8, 7, 16, 11, 14, 18, 14, 34, 6, 30, 11, 1, 11, 4, 32, 23, 45, 115, 37}
	august := []float64{39, 9, 16, 78, 35, 66, 122, 89, 110, 44, 28, 65, 22, 59, 23, 31, 44, 21, 9, 45, 168, 73, 76, 118, 84, 85}
	sum, _ := ranks(may, august, 0)
	if w := sum - 26*27/2; w != 127.5 {
		t.Errorf("W is %v", w)
	}
	if p := math.Erfc(-Statistic(may, august, 0) / math.Sqrt2); math.Abs(p-.0001208) > 5e-8 {
		t.Errorf("p is %.7f", p)
	}
	is := mannWhitney(may, august, .95)
	for i, want := range []float64{-53, -15, -32} {
		if got := []float64{is.low, is.high, is.estimate}[i]; math.Abs(got-want) > tolerance {
			t.Errorf("%s is %.5f, want %.5f", []string{"low", "high", "estimate"}[i], got, want)
		}
	}
}

// The example of SciPy's documentation of mannwhitneyu: the age at a diagnosis of diabetes. Its asymptotic p-value is
// 0.11134688653314041.
func TestExampleOfSciPy(t *testing.T) {
	t.Parallel()
	p := math.Erfc(Statistic([]float64{19, 22, 16, 29, 24}, []float64{20, 11, 17, 12}, 0) / math.Sqrt2)
	if math.Abs(p-.11134688653314041) > 1e-15 {
		t.Errorf("p is %v", p)
	}
}

// Critical values of U, two-sided at 5 % (Mann & Whitney 1947, and every table since): the approximation agrees within
// one.
func TestCriticalValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ n, critical int }{{8, 13}, {10, 23}, {15, 64}, {20, 127}} {
		got := -1
		for u := 0; 2*u <= c.n*c.n; u++ {
			x, y := samplesWith(c.n, u)
			if math.Abs(Statistic(x, y, 0)) > 1.96 {
				got = u
			}
		}
		if got < c.critical-1 || got > c.critical+1 {
			t.Errorf("n = %d: %d, the table has %d", c.n, got, c.critical)
		}
	}
}

// samplesWith returns two samples of n without ties whose U is u.
func samplesWith(n, u int) (x, y []float64) {
	for i := range n {
		y = append(y, float64(i+1))
		above := min(n, u)
		u -= above
		x = append(x, float64(above)+.5+float64(i)/1000)
	}
	return x, y
}

// What Kayenta's own suite expects of its interval.
func TestInterval(t *testing.T) {
	t.Parallel()
	got := mannWhitney([]float64{10, 20, 30, 40}, []float64{1, 2, 3, 4}, .95)
	if math.Abs(got.low-6) > tolerance || math.Abs(got.high-39) > tolerance || math.Abs(got.estimate-22.5) > tolerance {
		t.Errorf("%+v", got)
	}
}

// The interval covers a shift as often as it says, and no shift is found too often.
func TestCoverage(t *testing.T) {
	t.Parallel()
	const runs = 400
	rng := rand.New(rand.NewPCG(3, 4))
	covered, high, found := 0, 0, 0
	for range runs {
		var x, y, worse []float64
		for range 30 {
			x, y, worse = append(x, rng.NormFloat64()+5), append(y, rng.NormFloat64()+4), append(worse, rng.NormFloat64()+6)
		}
		if s := mannWhitney(x, y, confidence); s.low <= 1 && s.high >= 1 {
			covered++
		}
		if Classify(x, shifted(y, 1)) == High {
			high++
		}
		if Classify(x, worse) == High {
			found++
		}
	}
	if covered < .96*runs || high > .03*runs || found < .6*runs {
		t.Errorf("of %d: %d covered, %d high although alike, %d found", runs, covered, high, found)
	}
}

func shifted(all []float64, by float64) []float64 {
	out := make([]float64, len(all))
	for i, v := range all {
		out[i] = v + by
	}
	return out
}

func TestScore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of   []Class
		want Result
	}{
		{[]Class{Pass, Pass}, Passed},
		{[]Class{Pass, High}, Failed},
		{[]Class{Pass, Pass, Pass, High}, Marginal},
		{[]Class{Nodata, Pass}, Failed},
		{[]Class{Error, Pass}, Passed},
	} {
		if got := Documented().Of(Score(c.of...)); got != c.want {
			t.Errorf("%v: %s, want %s", c.of, got, c.want)
		}
	}
	for _, c := range []struct {
		control, experiment []float64
		want                Class
	}{
		{nil, []float64{1}, Nodata},
		{[]float64{0, 0}, []float64{0, 0}, Pass},
		{[]float64{1, 2}, []float64{2, 1}, Pass},
		{[]float64{3, 3, 3, 3, 3, 3}, []float64{1, 1, 1, 1, 1, 1}, Pass},
	} {
		if got := Classify(c.control, c.experiment); got != c.want {
			t.Errorf("%v, %v: %s, want %s", c.control, c.experiment, got, c.want)
		}
	}
}
