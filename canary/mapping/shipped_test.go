// SPDX-License-Identifier: Apache-2.0

package mapping_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
)

// shipped returns the mappings of config/400-config-canary.yaml and of its example.
func shipped(t *testing.T) map[string]mapping.Mapping {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "config", "400-config-canary.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c := &corev1.ConfigMap{}
	if err := yaml.UnmarshalStrict(content, c); err != nil {
		t.Fatal(err)
	}
	example := map[string]string{}
	if err := yaml.UnmarshalStrict([]byte(c.Data["_example"]), &example); err != nil {
		t.Fatal(err)
	}
	out := map[string]mapping.Mapping{}
	for _, data := range []map[string]string{c.Data, example} {
		for key, text := range data {
			name, ok := strings.CutPrefix(key, "mapping.")
			if !ok {
				continue
			}
			if out[name], err = mapping.Parse(name, text); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}

// Each mapping reads an exposition of its library. The head of each file names its source.
func TestShippedMappingsReadTheirLibraries(t *testing.T) {
	t.Parallel()
	finished := func(entity, outcome string) mapping.Key {
		return mapping.Key{Figure: mapping.Finished, Entity: entity, Outcome: outcome}
	}
	// Buckets of several outcomes are summed.
	want := map[string]map[mapping.Key]float64{
		"cloudstate": {
			{Figure: mapping.Started, Entity: "shopping-cart"}:                      120,
			finished("shopping-cart", mapping.OK):                                   115,
			finished("shopping-cart", mapping.Error):                                3,
			{Figure: mapping.Duration, Entity: "shopping-cart", Bound: .005}:        80,
			{Figure: mapping.Duration, Entity: "shopping-cart", Bound: .5}:          117,
			{Figure: mapping.Duration, Entity: "shopping-cart", Bound: math.Inf(1)}: 118,
			{Figure: mapping.DurationSum, Entity: "shopping-cart"}:                  1.5,
		},
		"kamon-pekko": {finished("Cart", mapping.Unknown): 347},
		"kamon-akka":  {finished("Cart", mapping.Unknown): 990},
		"protoactor":  {finished("main.cart", mapping.Unknown): 716},
		"micrometer": {
			finished("Cart", mapping.OK):                                   40,
			finished("Cart", mapping.Error):                                2,
			finished("Cart", mapping.Timeout):                              1,
			{Figure: mapping.Duration, Entity: "Cart", Bound: .5}:          41,
			{Figure: mapping.Duration, Entity: "Cart", Bound: math.Inf(1)}: 43,
			{Figure: mapping.DurationSum, Entity: "Cart"}:                  3.25,
		},
	}
	all := shipped(t)
	if len(all) != len(want) {
		t.Errorf("%d mappings are shipped, %d are tested", len(all), len(want))
	}
	for name, m := range all {
		body, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
		if err != nil {
			t.Error(err)
			continue
		}
		if head, _, _ := strings.Cut(string(body), "\n"); !strings.HasPrefix(head, "# Captured from ") &&
			!strings.HasPrefix(head, "# Read from source: ") {
			t.Errorf("%s.txt does not say where it comes from", name)
		}
		e, err := scrape.Parse(body, "", mapping.NewReader(mapping.Neutral(), m), 1000)
		if err != nil || len(e.Sources) != 1 {
			t.Errorf("%s: %v, %v", name, e, err)
			continue
		}
		if diff := cmp.Diff(want[name], e.Sources[0].Values); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// queue-proxy of every version of Serving that the controller can read: its two families, the
// durations, and nothing else.
func TestEntryReadsQueueProxy(t *testing.T) {
	t.Parallel()
	for file, c := range map[string]struct {
		source string
		codes  map[string]float64
		bounds int
		// fast counts those of all that took up to 0.5 s.
		all, fast float64
		// seconds is their total duration; start means that the process exports its start time.
		seconds float64
		start   bool
	}{
		"queue-proxy": {mapping.EntryName, map[string]float64{"200": 480, "500": 9}, 15, 489, 487, 31.7, true},
		// One broke off: only Serving's own family saw it.
		"queue-proxy-1.19": {mapping.EntryName, map[string]float64{"200": 42, "404": 4, "500": 3}, 15, 49, 47, 1.2, true},
		// One of the 500s is a request that broke off in the middle of its answer.
		"queue-proxy-opencensus": {
			mapping.EntryOldName,
			map[string]float64{"200": 42, "404": 4, "500": 4},
			27, 50, 48, 1.2,
			false,
		},
	} {
		body, err := os.ReadFile(filepath.Join("testdata", file+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(body), "# Captured from ") {
			t.Errorf("%s does not say where it comes from", file)
		}
		e, err := scrape.Parse(body, "text/plain; version=0.0.4", mapping.Entry(), 1000)
		if err != nil || len(e.Sources) != 1 || e.Sources[0].Name != c.source || (e.Start > 1e9) != c.start ||
			e.Duplicates > 0 {
			t.Fatalf("%s: %v, %v", file, e, err)
		}
		bounds, codes := 0, map[mapping.Figure]float64{}
		for k, v := range e.Sources[0].Values {
			switch k.Figure {
			case mapping.EntryDuration:
				bounds++
				if k.Bound == .5 && v != c.fast || math.IsInf(k.Bound, 1) && v != c.all {
					t.Errorf("%s: %v requests took up to %v s", file, v, k.Bound)
				}
			case mapping.EntryDurationSum:
				if math.Abs(v-c.seconds) > .3 {
					t.Errorf("%s: they took %v s", file, v)
				}
			default:
				codes[k.Figure] += v
				if k.Figure == mapping.EntryHTTP && v != c.codes[k.Outcome] {
					t.Errorf("%s: %+v is %v", file, k, v)
				}
			}
		}
		if bounds != c.bounds || codes[mapping.EntryHTTP] != c.all {
			t.Errorf("%s: %d buckets, %v", file, bounds, codes)
		}
	}
}
