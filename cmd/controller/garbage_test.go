// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

func TestGarbageMayGrowToTheFloor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		inUse uint64
		want  int
	}{
		{0, 6400}, // not known yet
		{1 << 20, 6400},
		{32 << 20, 200},
		{64 << 20, 100},
		{65 << 20, 100},
		{1 << 30, 100},
		{math.MaxUint64, 100},
	} {
		if got := percentFor(c.inUse); got != c.want {
			t.Errorf("%d bytes in use: %d %%, want %d", c.inUse, got, c.want)
		}
	}
}

func TestAdaptsToWhatIsInUse(t *testing.T) {
	t.Parallel()
	if !alone(t, "GOGC=") {
		return
	}
	collectOften()
	if got := setting(); got != startGCPercent {
		t.Fatalf("at the start: %d %%", got)
	}
	collectSeldom()
	if got := setting(); got <= 2*gcPercent {
		t.Fatalf("with a small heap: %d %%", got)
	}
	func() {
		large := make([]byte, 2*gcFloor)
		defer runtime.KeepAlive(large)
		settles(t, gcPercent, gcPercent)
	}()
	settles(t, 2*gcPercent, percentFor(0))
}

func TestGOGCIsRespected(t *testing.T) {
	t.Parallel()
	if !alone(t, "GOGC=77") {
		return
	}
	for _, collect := range []func(){collectOften, collectSeldom} {
		if collect(); setting() != 77 {
			t.Fatalf("%d %%", setting())
		}
	}
}

// alone runs a test again in a process of its own, because all tests of a process share its garbage collector. It returns true there.
func alone(t *testing.T, env string) bool {
	t.Helper()
	if os.Getenv("TEST_ALONE") == t.Name() {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$") //nolint:gosec // this program
	cmd.Env = append(os.Environ(), "TEST_ALONE="+t.Name(), env)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

// settles fails the test unless the percentage comes to lie between two others after some collections.
func settles(t *testing.T, least, most int) {
	t.Helper()
	for range 100 {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
		if got := setting(); least <= got && got <= most {
			return
		}
	}
	t.Fatalf("%d %% of %d bytes, want %d to %d %%", setting(), inUse(), least, most)
}

// setting returns the percentage that is set.
func setting() int { return int(runtimeMetric("/gc/gogc:percent")) } //nolint:gosec // a small number
