// SPDX-License-Identifier: Apache-2.0

package scrape

import (
	"errors"
	"fmt"
	"io"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// spell writes one series in one of the ways that Prometheus reads, or nearly.
func spell(rnd *rand.Rand, name, entity, outcome string, value int) string {
	blank := func() string { return []string{"", "", " ", "\t", "  "}[rnd.Intn(5)] }
	quoted := func(name string) string {
		if rnd.Intn(3) == 0 {
			return `"` + name + `"`
		}
		return name
	}
	pair := func(label, value string) string { return quoted(label) + blank() + "=" + blank() + `"` + value + `"` }
	pairs := []string{pair("entity_type", entity), pair("outcome", outcome)}
	rnd.Shuffle(2, func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	before := blank() + name + blank()
	if rnd.Intn(3) == 0 {
		before, pairs = blank(), append([]string{`"` + name + `"`}, pairs...)
	}
	inside := blank() + strings.Join(pairs, blank()+","+blank()) + blank() + []string{"", ","}[rnd.Intn(2)] + blank()
	after := []string{"", " 1678204428403"}[rnd.Intn(2)]
	return fmt.Sprintf("%s{%s}%s%d%s%s\n", before, inside, blank(), value, after, []string{"", " "}[rnd.Intn(2)])
}

// byPrometheus returns what Prometheus' parser finds of the neutral contract's outcomes.
func byPrometheus(t *testing.T, body, contentType string) (map[mapping.Key]float64, error) {
	t.Helper()
	p, err := textparse.New([]byte(body), contentType, labels.NewSymbolTable(),
		textparse.ParserOptions{FallbackContentType: "text/plain"})
	if err != nil {
		t.Fatal(err)
	}
	sums := map[mapping.Key]float64{}
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return sums, nil
		}
		if err != nil {
			return nil, err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var l labels.Labels
		p.Labels(&l)
		// The format ignores blanks before a name. This parser takes them for a part of it.
		if strings.TrimLeft(l.Get(model.MetricNameLabel), " \t") != "stateful_requests_total" {
			continue
		}
		_, _, value := p.Series()
		sums[mapping.Key{Figure: mapping.Finished, Entity: l.Get("entity_type"), Outcome: l.Get("outcome")}] += value
	}
}

func finishedOf(e Exposition) map[mapping.Key]float64 {
	sums := map[mapping.Key]float64{}
	for _, s := range e.Sources {
		for key, value := range s.Values {
			if key.Figure == mapping.Finished {
				sums[key] = value
			}
		}
	}
	return sums
}

// However a series is written, it is read as Prometheus reads it, and again so at the next reading. What Prometheus
// refuses is refused, and never counted as nothing.
func TestSeriesAreReadAsPrometheusReadsThem(t *testing.T) {
	t.Parallel()
	const neutral = `{entity_type="Cart",outcome="ok"}`
	for body, want := range map[string]float64{
		// client libraries of old, and by hand
		"stateful_requests_total " + neutral + " 5\n":                                      5,
		"stateful_requests_total\t" + neutral + " 5\n":                                     5,
		" stateful_requests_total" + neutral + " 5\n":                                      5,
		"\t stateful_requests_total \t" + neutral + "\t5\n":                                5,
		`{"stateful_requests_total",entity_type="Cart",outcome="ok"} 5` + "\n":             5, // the syntax for UTF-8
		`{ "stateful_requests_total" , "entity_type"="Cart" , "outcome"="ok" , } 5` + "\n": 5,
		`{entity_type="Cart","stateful_requests_total",outcome="ok"} 5` + "\n":             5,
		`{"stateful_requests_total{}",entity_type="Cart",outcome="ok"} 5` + "\n":           0, // another name
	} {
		m := NewMemory(mapping.NewReader(mapping.Neutral()))
		for range 3 {
			e, err := m.Parse([]byte(body), "text/plain", 100)
			if got := finishedOf(e)[mapping.Key{Figure: mapping.Finished, Entity: "Cart", Outcome: mapping.OK}]; err != nil ||
				got != want {
				t.Errorf("%q: counted %v, %v, want %v", body, got, err, want)
			}
		}
	}
	for seed := range int64(2000) {
		rnd := rand.New(rand.NewSource(seed))
		var body strings.Builder
		for i := range 1 + rnd.Intn(5) {
			name := []string{"stateful_requests_total", "stateful_requests_total", "other", "stateful_requests"}[rnd.Intn(4)]
			body.WriteString(spell(rnd, name, fmt.Sprint("E", i), []string{mapping.OK, mapping.Error}[rnd.Intn(2)], i))
		}
		contentType := "text/plain; version=0.0.4"
		if rnd.Intn(3) == 0 {
			contentType = openMetrics + "; version=1.0.0"
			body.WriteString("# EOF\n")
		}
		want, wantErr := byPrometheus(t, body.String(), contentType)
		m := NewMemory(mapping.NewReader(mapping.Neutral()))
		for range 2 {
			e, err := m.Parse([]byte(body.String()), contentType, 100)
			if (err != nil) != (wantErr != nil) {
				t.Fatalf("seed %d: %v, want %v:\n%s", seed, err, wantErr, body.String())
			}
			if diff := cmp.Diff(want, finishedOf(e)); err == nil && diff != "" {
				t.Fatalf("seed %d: %s in\n%s", seed, diff, body.String())
			}
		}
	}
}

// A process that writes its start in another way has a start all the same.
func TestStartIsReadAsPrometheusReadsIt(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		"process_start_time_seconds {} 1.5e9\n", ` {"process_start_time_seconds"} 1.5e9` + "\n",
		"\tprocess_start_time_seconds\t1.5e9\n",
	} {
		if e, err := Parse([]byte(body), "", mapping.NewReader(mapping.Neutral()), 10); err != nil || e.Start != 1.5e9 {
			t.Errorf("%q: %v, %v", body, e.Start, err)
		}
	}
}
