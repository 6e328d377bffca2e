// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// captured is one update that a watch of a real cluster delivered.
type captured struct {
	// After is when it came, in seconds since the story began.
	After  float64
	Type   string
	Object *unstructured.Unstructured
}

func captures(t *testing.T, file string) []captured {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []captured
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return out
}

// replay folds a story as the controller does, and returns what it announces. A story that does not begin with a
// new object begins with a baseline. The last state lasts for a minute.
func replay(t *testing.T, file string, composite bool, rules lifecycle.Rules) []string {
	t.Helper()
	var out []string
	var m lifecycle.EnvironmentMemory
	var last lifecycle.EnvironmentSnapshot
	var wake time.Time
	began := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	version, known := "", false
	take := func(r lifecycle.EnvironmentResult) {
		for _, tr := range r.Transitions {
			what := string(tr.Type)
			if tr.Incident != nil {
				what += " " + string(tr.Incident.Kind)
			}
			if e := tr.Environment; len(e.Changed) > 0 {
				what += " " + strings.Join(e.Changed, ",")
			}
			out = append(out, what)
		}
		m, wake = r.Memory, r.WakeAt
	}
	fold := func(at time.Time) { take(lifecycle.NextEnvironment(rules, m, last, at)) }
	sleep := func(until time.Time) {
		for known && !wake.IsZero() && wake.Before(until) {
			fold(wake)
		}
	}
	end := began
	for _, c := range captures(t, file) {
		end = began.Add(time.Duration(c.After * float64(time.Second)))
		sleep(end)
		if v := (object{c.Object}).text("spec.version"); v != "" && strings.Contains(c.Object.GetKind(), "ControlPlane") {
			version = v
			continue
		}
		v := projector{composite: composite}.project(c.Object)
		if v.Part {
			continue // it belongs to the environment of the story
		}
		if c.Type == "DELETED" {
			last = lifecycle.EnvironmentSnapshot{Gone: true}
			fold(end)
			m, known = lifecycle.EnvironmentMemory{}, false
			continue
		}
		last = v.Facts
		if v.ControlPlane != nil {
			last.Environment.Version = version
		}
		if !known && (last.Ready || last.EverReady) {
			take(lifecycle.BaselineEnvironment(last))
		} else {
			fold(end)
		}
		known = true
	}
	sleep(end.Add(time.Minute))
	return out
}

// told is what is announced in each story of Cluster API.
var told = map[string][]string{
	"created":            {"ClusterAPIClusterCreated", "EnvironmentCreated"},
	"classless-created":  {"ClusterAPIClusterCreated", "EnvironmentCreated"},
	"scaled":             nil,
	"upgraded":           {"EnvironmentModified version"},
	"classless-upgraded": {"EnvironmentModified version"},
	"paused":             nil,
	"deleted":            {"EnvironmentDeleted"},
	"classless-deleted":  {"EnvironmentDeleted"},
	// It never became available: that it is gone is no news.
	"stuck":         {"ClusterAPIClusterCreated"},
	"class-missing": {"ClusterAPIClusterCreated", "EnvironmentCreated"},
	"stalled":       nil,
	"unreachable":   nil,
	"pools":         {"EnvironmentModified pools,spec", "EnvironmentModified pools,spec"},
}

// hasty are limits that the captured incidents exceed.
func hasty() lifecycle.Rules {
	r := lifecycle.DefaultRules
	r.EnvironmentOutageAfter, r.EnvironmentDegradedAfter, r.EnvironmentNotCreatedAfter = 10*time.Second, 15*time.Second,
		time.Minute
	return r
}

// toldHastily is what is announced of incidents with these limits.
var toldHastily = map[string][]string{
	"stuck": {
		"ClusterAPIClusterCreated", "IncidentDetected environment-not-created",
		"IncidentResolved environment-not-created",
	},
	"class-missing": {
		"ClusterAPIClusterCreated", "IncidentDetected environment-not-created", "EnvironmentCreated",
		"IncidentResolved environment-not-created",
	},
	"stalled":     {"IncidentDetected environment-degraded", "IncidentResolved environment-degraded"},
	"unreachable": {"IncidentDetected environment-outage", "IncidentResolved environment-outage"},
	"scaled":      nil,
	"upgraded":    {"EnvironmentModified version"},
	"deleted":     {"EnvironmentDeleted"},
}

// expected returns what is expected of a story, by its whole name or by the last part.
func expected(in map[string][]string, story string) (want []string, known bool) {
	if want, known = in[story]; !known {
		want, known = in[filepath.Base(story)]
	}
	return want, known
}

func TestCapturedStories(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/clusterapi-*/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		story := strings.TrimSuffix(strings.TrimPrefix(file, "testdata/"), ".json")
		t.Run(story, func(t *testing.T) {
			t.Parallel()
			want, known := expected(told, story)
			if !known {
				t.Fatalf("nothing is expected of %s", file)
			}
			if got := replay(t, file, false, lifecycle.DefaultRules); !slices.Equal(got, want) {
				t.Errorf("announced %v, want %v", got, want)
			}
			if want, known := expected(toldHastily, story); known {
				if got := replay(t, file, false, hasty()); !slices.Equal(got, want) {
					t.Errorf("with short limits, announced %v, want %v", got, want)
				}
			}
		})
	}
}

// toldOfCrossplane is what is announced in each story of Crossplane, apart from the wait for what is beneath. Changes
// that follow each other within seconds are one modification.
var toldOfCrossplane = map[string][]string{
	"claim": {
		"CrossplaneClusterCreated", "EnvironmentCreated",
		"EnvironmentModified version,region,url,spec", "EnvironmentDeleted",
	},
	"namespaced": {
		"CrossplaneClusterCreated", "EnvironmentCreated",
		"EnvironmentModified version,region,url,spec", "EnvironmentDeleted",
	},
	"cluster-scoped": {
		"CrossplaneClusterCreated", "EnvironmentCreated",
		"EnvironmentModified version,region,url,spec", "EnvironmentDeleted",
	},
	"managed": {"CrossplaneClusterCreated", "EnvironmentCreated", "EnvironmentDeleted"},
	"claim-trouble": {
		"CrossplaneClusterCreated", "EnvironmentCreated", "IncidentDetected environment-outage",
		"IncidentResolved environment-outage", "EnvironmentDeleted",
	},
	"namespaced-trouble": {
		"CrossplaneClusterCreated", "EnvironmentCreated", "IncidentDetected environment-outage",
		"IncidentResolved environment-outage", "EnvironmentDeleted",
	},
	// A claim does not show that its composite is not Synced.
	"claim-broken": {"CrossplaneClusterCreated", "EnvironmentCreated", "EnvironmentDeleted"},
	"namespaced-broken": {
		"CrossplaneClusterCreated", "EnvironmentCreated", "IncidentDetected environment-degraded",
		"IncidentResolved environment-degraded", "EnvironmentDeleted",
	},
	// Deleted before the upgrade was in place for long enough.
	"claim-paused":      {"CrossplaneClusterCreated", "EnvironmentCreated", "EnvironmentDeleted"},
	"namespaced-paused": {"CrossplaneClusterCreated", "EnvironmentCreated", "EnvironmentDeleted"},
	"never-ready":       {"CrossplaneClusterCreated"},
	"no-composition":    {"CrossplaneClusterCreated", "EnvironmentCreated", "EnvironmentDeleted"},
	"recreated": {
		"CrossplaneClusterCreated", "EnvironmentCreated", "EnvironmentDeleted",
		"CrossplaneClusterCreated", "EnvironmentCreated", "EnvironmentDeleted",
	},
	// Nothing is deleted with the object.
	"orphan":         {"CrossplaneClusterCreated", "EnvironmentCreated"},
	"without-delete": {"CrossplaneClusterCreated"},
	"observe-only":   nil,
}

func TestCapturedStoriesOfCrossplane(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/crossplane-*/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		story := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(story, func(t *testing.T) {
			t.Parallel()
			want, known := toldOfCrossplane[story]
			if got := replay(t, file, story != "managed", hasty()); !known || !slices.Equal(got, want) {
				t.Errorf("announced %q, want %q", got, want)
			}
		})
	}
}
