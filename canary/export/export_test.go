// SPDX-License-Identifier: Apache-2.0

package export

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

type fixed struct {
	figures []attribution.Figures
	health  attribution.Health
}

func (f fixed) Figures() iter.Seq[attribution.Figures] { return slices.Values(f.figures) }
func (f fixed) Health() attribution.Health             { return f.health }

func ptr[T any](v T) *T { return &v }

func sample() fixed {
	return fixed{
		figures: []attribution.Figures{{
			Service: types.NamespacedName{Namespace: "shop", Name: "cart"}, Stateful: true,
			Revisions: []attribution.RevisionFigures{
				{
					Revision: attribution.Revision{Revision: &lifecycle.Revision{UID: "2", Name: "cart-2"}, Configuration: "cart", Required: ptr(.05)},
					Handled:  map[string]float64{"ok": 41, "error": 2, "timeout": 0}, Entered: map[string]float64{"2xx": 3},
					EnteredAt: map[string]float64{"cart-1": 40, "other": 3},
					Durations: &attribution.Histogram{Count: 43, Sum: 1.5, Buckets: map[float64]uint64{.5: 40, 1: 43}},
					Share:     ptr(.36), Unaccounted: ptr(1.), Restarts: map[string]float64{"oom_killed": 1},
					Members: ptr(1.), Shards: map[string]float64{"Cart": 34}, ScrapeAge: ptr(1500 * time.Millisecond),
				},
				{Revision: attribution.Revision{Revision: &lifecycle.Revision{UID: "3", Name: "cart-3"}, Configuration: "cart"}},
				// The same name again, while its predecessor is being deleted.
				{Revision: attribution.Revision{Revision: &lifecycle.Revision{UID: "3'", Name: "cart-3"}, Configuration: "cart", Required: ptr(1.)}},
			},
			NeverStarted: ptr(4.),
			NoData: []attribution.NoData{
				{Revision: "3", Figure: "handled_requests_total", Reason: attribution.NotRead},
				{Revision: "3'", Figure: "handled_requests_total", Reason: attribution.NotRead},
			},
		}},
		health: attribution.Health{
			Scrapes: map[string]float64{"success": 7, "timeout": 1}, Rejected: map[string]float64{"fell": 2}, Services: 1,
			Targets: 4, Longest: 250 * time.Millisecond,
		},
	}
}

func TestCollect(t *testing.T) {
	t.Parallel()
	const labels = `k8s_namespace_name="shop",kn_configuration_name="cart",kn_revision_name="cart-2",kn_service_name="cart"`
	want := `
# HELP canary_entry_requests_total Requests that entered at the Revision, by class of the status code (unknown if there is none).
# TYPE canary_entry_requests_total counter
canary_entry_requests_total{code_class="2xx",` + labels + `} 3
# HELP canary_handled_requests_by_entry_total Requests that the Revision handled, by the Revision where they entered; only if the application exports this.
# TYPE canary_handled_requests_by_entry_total counter
canary_handled_requests_by_entry_total{entry_revision_name="cart-1",` + labels + `} 40
canary_handled_requests_by_entry_total{entry_revision_name="other",` + labels + `} 3
# HELP canary_handled_requests_total Requests that the Revision handled, wherever they entered, by outcome.
# TYPE canary_handled_requests_total counter
canary_handled_requests_total{` + labels + `,outcome="error"} 2
canary_handled_requests_total{` + labels + `,outcome="ok"} 41
canary_handled_requests_total{` + labels + `,outcome="timeout"} 0
# HELP canary_handled_request_duration_seconds Durations of the requests that the Revision handled, in seconds.
# TYPE canary_handled_request_duration_seconds histogram
canary_handled_request_duration_seconds_bucket{` + labels + `,le="0.5"} 40
canary_handled_request_duration_seconds_bucket{` + labels + `,le="1"} 43
canary_handled_request_duration_seconds_bucket{` + labels + `,le="+Inf"} 43
canary_handled_request_duration_seconds_sum{` + labels + `} 1.5
canary_handled_request_duration_seconds_count{` + labels + `} 43
# HELP canary_traffic_share_ratio Share of the requests that the current Route gives the Revision.
# TYPE canary_traffic_share_ratio gauge
canary_traffic_share_ratio{` + labels + `} 0.05
# HELP canary_handled_share_ratio Share of the requests in the last 5 minutes that the Revision handled.
# TYPE canary_handled_share_ratio gauge
canary_handled_share_ratio{` + labels + `} 0.36
# HELP canary_unaccounted_requests Requests that the Revision started but did not finish within the request timeout (stage handling), or that entered the Service but were never started (stage entry).
# TYPE canary_unaccounted_requests gauge
canary_unaccounted_requests{` + labels + `,stage="handling"} 1
canary_unaccounted_requests{k8s_namespace_name="shop",kn_configuration_name="",kn_revision_name="",kn_service_name="cart",stage="entry"} 4
# HELP canary_pod_restarts_total Restarts of containers and failures of pods of the Revision, by reason.
# TYPE canary_pod_restarts_total counter
canary_pod_restarts_total{` + labels + `,reason="oom_killed"} 1
# HELP canary_cluster_members Pods of the Revision that are members of the stateful cluster.
# TYPE canary_cluster_members gauge
canary_cluster_members{` + labels + `} 1
# HELP canary_cluster_shards Shards that the Revision's pods hold, by entity type.
# TYPE canary_cluster_shards gauge
canary_cluster_shards{entity_type="Cart",` + labels + `} 34
# HELP canary_scrape_age_seconds Seconds since the last successful scrape, for the pod of the Revision that was not scraped for the longest time.
# TYPE canary_scrape_age_seconds gauge
canary_scrape_age_seconds{` + labels + `} 1.5
# HELP canary_no_data 1 for each figure that is missing, with the reason.
# TYPE canary_no_data gauge
canary_no_data{figure="handled_requests_total",k8s_namespace_name="shop",kn_configuration_name="cart",kn_revision_name="cart-3",kn_service_name="cart",reason="NotRead"} 1
# HELP canary_scrapes_total Scrapes of pods, by result.
# TYPE canary_scrapes_total counter
canary_scrapes_total{result="success"} 7
canary_scrapes_total{result="timeout"} 1
# HELP canary_rejected_samples_total Samples of pods that were not counted as exported, by reason.
# TYPE canary_rejected_samples_total counter
canary_rejected_samples_total{reason="fell"} 2
# HELP canary_scrape_targets Ports of pods that this replica scrapes.
# TYPE canary_scrape_targets gauge
canary_scrape_targets 4
# HELP canary_scrape_services Services that this replica scrapes.
# TYPE canary_scrape_services gauge
canary_scrape_services 1
# HELP canary_scrape_duration_seconds Duration of the slowest of the last scrapes, in seconds.
# TYPE canary_scrape_duration_seconds gauge
canary_scrape_duration_seconds 0.25
`
	if err := testutil.CollectAndCompare(NewCollector(sample()), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// A pedantic registry finds no error.
func TestPedantically(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewCollector(sample()))
	if _, err := registry.Gather(); err != nil {
		t.Error(err)
	}
	problems, err := testutil.CollectAndLint(NewCollector(sample()))
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

// Every figure that can be missing is exported under the name in NoData.
func TestDescribesEverything(t *testing.T) {
	t.Parallel()
	descs := make(chan *prometheus.Desc, 100)
	NewCollector(fixed{}).Describe(descs)
	if len(descs) != len(all) {
		t.Errorf("%d of %d", len(descs), len(all))
	}
	if n := testutil.CollectAndCount(NewCollector(fixed{})); n != 3 {
		t.Errorf("%d metrics of nothing", n)
	}
}

// Labels of applications may be anything. The registry refuses a scrape with one that is not valid, or with labels
// that are not sorted.
func TestOneBadLabelDoesNotFailTheScrape(t *testing.T) {
	t.Parallel()
	bad := sample()
	bad.figures[0].Revisions[0].EnteredAt = map[string]float64{"a\xffb": 1, "cart-1": 2}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewCollector(bad))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if !slices.IsSortedFunc(m.GetLabel(), func(a,
				b *dto.LabelPair,
			) int {
				return strings.Compare(a.GetName(), b.GetName())
			}) {
				t.Errorf("%s: %v", f.GetName(), m.GetLabel())
			}
		}
		if f.GetName() == "canary_handled_requests_by_entry_total" && len(f.GetMetric()) != 1 {
			t.Errorf("%v", f.GetMetric())
		}
	}
}

// What Services without pods cost in a scrape of this process.
func BenchmarkScrapeOfSleepers(b *testing.B) {
	var all fixed
	for i := range 1000 {
		f := attribution.Figures{Service: types.NamespacedName{Namespace: "shop", Name: fmt.Sprintf("cart-%d", i)}}
		for r := range 3 {
			uid := types.UID(fmt.Sprintf("%d-%d", i, r))
			f.Revisions = append(f.Revisions, attribution.RevisionFigures{
				Revision: attribution.Revision{
					Revision: &lifecycle.Revision{UID: uid, Name: fmt.Sprintf("cart-%d-%d", i, r)}, Configuration: f.Service.Name, Required: ptr(.5),
				},
				Restarts: map[string]float64{"oom_killed": 0, "restarted": 0, "pod_failed": 0},
			})
			for _, figure := range []string{"handled_requests_total", "entry_requests_total"} {
				f.NoData = append(f.NoData, attribution.NoData{Revision: uid, Figure: figure, Reason: attribution.NotRead})
			}
		}
		all.figures = append(all.figures, f)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(all))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := registry.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
