// SPDX-License-Identifier: Apache-2.0

package words_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/cli/words"
)

// The page has the same examples: TestWordsOfThePage.
func TestExamples(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/words.json")
	if err != nil {
		t.Fatal(err)
	}
	var examples struct {
		Spans, Shares [][]any
		Stamps        []struct {
			Now          string
			Times, Shown []string
		}
	}
	if err := json.Unmarshal(raw, &examples); err != nil {
		t.Fatal(err)
	}
	number := func(v any) float64 {
		f, is := v.(float64)
		if !is {
			t.Fatalf("%v is no number", v)
		}
		return f
	}
	for _, e := range examples.Spans {
		d := time.Duration(number(e[0]) * float64(time.Second))
		if long, short := words.Span(d), words.Short(d); long != e[1] || short != e[2] {
			t.Errorf("%v is %q and %q, want %q", d, long, short, e[1:])
		}
	}
	for _, e := range examples.Shares {
		if got := verdict.Percent(number(e[0])); got != e[1] {
			t.Errorf("%v is %q, want %q", e[0], got, e[1])
		}
	}
	for n, want := range map[float64]string{0: "0", 12: "12", 999.6: "1,000", 2106: "2,106", 1234567: "1,234,567"} {
		if got := words.Count(n); got != want {
			t.Errorf("%v is %q, want %q", n, got, want)
		}
	}
	at := func(s string) time.Time {
		t.Helper()
		out, err := time.Parse("2006-01-02T15:04:05", s)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, e := range examples.Stamps {
		var all []time.Time
		for _, s := range e.Times {
			all = append(all, at(s))
		}
		write := words.Stamps(at(e.Now), all...)
		for i, s := range all {
			if got := write(s); got != e.Shown[i] {
				t.Errorf("%v is %q, want %q", s, got, e.Shown[i])
			}
		}
	}
}
