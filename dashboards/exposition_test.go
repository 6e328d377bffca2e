// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"context"
	"iter"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	clusterstate "github.com/knative-cdevents/knative-cdevents/canary/cluster"
	"github.com/knative-cdevents/knative-cdevents/canary/export"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery"
	"github.com/knative-cdevents/knative-cdevents/emitter/dora"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/cluster"
	"github.com/knative-cdevents/knative-cdevents/reconciler/environment"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/pods"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
)

// replica is a controller as Prometheus sees it: the exporters are real, their data is made up. It
// can become leader and resign.
type replica struct {
	mu       sync.Mutex
	from, to time.Time

	registry    *prometheus.Registry
	instruments *delivery.Instruments
	clusters    *cluster.Instruments
	gates       *gate.Metrics
}

// deployed is what the ledger has stored about deployments: the same for every leader.
var deployed = []*v1alpha1.CDEventSubject{{
	Spec: v1alpha1.CDEventSubjectSpec{Kind: "Service", Namespace: "shop", Name: "cart"},
	Status: v1alpha1.CDEventSubjectStatus{Performance: &v1alpha1.Performance{
		Deployments: 4, Stopped: 1, Failures: 1,
		LeadTime: &v1alpha1.DurationCounts{Counts: []int64{0, 4}, Milliseconds: 2_400_000},
		Restore:  &v1alpha1.DurationCounts{Counts: []int64{2}, Milliseconds: 60_000},
	}},
}}

// finished is a run that ended with this verdict.
func finished(now time.Time, name string, v verdict.Verdict, reason verdict.Reason) *v1alpha1.GateRun {
	end := metav1.NewTime(now)
	return &v1alpha1.GateRun{
		ID: name, Gate: name, Service: v1alpha1.GateObject{Name: "cart", UID: "u"}, Canary: v1alpha1.GateObject{Name: "cart-2"}, StartTime: end, CompletionTime: &end,
		Verdict: v, Reasons: []string{string(reason)}, Effective: &v1alpha1.GateEffective{
			GatePolicy: v1alpha1.GatePolicy{
				Minimum: &v1alpha1.GateMinimum{
					CanaryRequests: ptr(int64(300)), BaselineRequests: ptr(int64(300)),
				},
			},
		},
		Report: &verdict.Judgement{
			Canary: verdict.Samples{Requests: 120}, Baseline: verdict.Samples{Requests: 900}, HandledShare: ptr(.36),
			Metrics: []verdict.MetricResult{
				{
					Name: "ErrorRate", Verdict: v, Reason: reason, Canary: ptr(.08), Baseline: ptr(.01), EFail: 75, EFailLimit: 60, EPass: .5, EPassLimit: 20,
					P: ptr(.001),
				},
			},
		},
	}
}

// Call newReplica for one replica after the other: its instruments use the process's meter provider
// at that time.
func newReplica(t *testing.T) *replica {
	t.Helper()
	r := &replica{registry: prometheus.NewPedanticRegistry()}
	r.registry.MustRegister(export.NewCollector(r), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := otelprometheus.New(otelprometheus.WithRegisterer(r.registry),
		otelprometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
	if err != nil {
		t.Fatal(err)
	}
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	if r.instruments, err = delivery.NewInstruments(); err != nil {
		t.Fatal(err)
	}
	d := delivery.New(t.Context(), delivery.Options{Ledger: owing{}, Leader: r})
	d.UpdateSource(&v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{UID: "s", Namespace: "shop", Name: "releases"}})
	if err := r.instruments.Watch(d, func() map[types.UID]string { return map[types.UID]string{"s": "shop/releases"} }); err != nil {
		t.Fatal(err)
	}
	if r.clusters, err = cluster.NewInstruments(); err != nil {
		t.Fatal(err)
	}
	w := cluster.NewPoller(cluster.Options{
		Pods: noPods{}, API: cluster.NewManagement(), Metrics: r.clusters, Now: time.Now, Services: misdeclared{r}, View: misdeclared{r},
	})
	if err := r.clusters.Watch(w); err != nil {
		t.Fatal(err)
	}
	go w.Run(t.Context())
	r.gates = gate.NewMetrics(time.Now, r)
	r.registry.MustRegister(r.gates, &dora.Collector{
		Ledger: r, Leader: r, Environments: r,
	})
	r.registry.MustRegister(planned(r), environment.Metrics(provisioned))
	return r
}

// provisioned are environments of two kinds, one of which cannot be read.
func provisioned() []environment.Reading {
	return []environment.Reading{
		{Kind: schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "Cluster"}, Readability: environment.Readable, Objects: 12},
		{Kind: schema.GroupKind{Group: "eks.aws.upbound.io", Kind: "Cluster"}, Readability: environment.MayNotRead},
	}
}

// planned is a cluster of which 4 shards are not yet where the plan wants them.
func planned(leads cluster.Leader) *cluster.Metrics {
	m := cluster.NewMetrics(leads)
	l := clusterstate.Layout{
		Members: []clusterstate.LayoutMember{{Address: "a", Revision: "cart-1"}, {Address: "b", Revision: "cart-2"}},
		Owners:  map[string]map[string]string{"Cart": {}},
	}
	plan := v1alpha1.ShardPlacementStatus{
		Members:     []v1alpha1.PlacementMember{{Address: "a", Revision: "cart-1"}, {Address: "b", Revision: "cart-2"}},
		EntityTypes: []v1alpha1.PlacementEntityType{{Name: "Cart", Shards: 100, Quotas: []int32{60, 40}}},
	}
	for i := range 100 {
		l.Owners["Cart"][strconv.Itoa(i)] = "a"
		if i >= 64 {
			l.Owners["Cart"][strconv.Itoa(i)] = "b"
		}
	}
	m.Update(types.NamespacedName{Namespace: "shop", Name: "cart"}, l, plan, false, time.Now())
	return m
}

// misdeclared is a Service whose newest Revision declares a cluster in a wrong way.
type misdeclared struct{ *replica }

func (misdeclared) Declared() map[types.NamespacedName]service.Declared {
	return map[types.NamespacedName]service.Declared{{Namespace: "shop", Name: "cart"}: {UID: "c", Stateful: true, Wrong: true}}
}
func (misdeclared) Sequence(types.NamespacedName, types.UID) int64    { return 0 }
func (misdeclared) Update(types.NamespacedName, observer.Part)        {}
func (misdeclared) UpdateCluster(types.NamespacedName, observer.Part) {}

// All implements dora.Ledger.
func (*replica) All() []*v1alpha1.CDEventSubject { return deployed }

// EnvironmentOf implements dora.Environments.
func (*replica) EnvironmentOf(string) string { return "production" }

// IsLeaderFor implements the Leader of each package that has metrics.
func (r *replica) IsLeaderFor(types.NamespacedName) bool { return r.leads() }

// leads reports whether the replica is the leader.
func (r *replica) leads() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.from.IsZero() && r.to.IsZero()
}

// noPods is a cluster scaled to zero.
type noPods struct{}

func (noPods) Synced() bool                           { return true }
func (noPods) Of(types.NamespacedName) []*pods.Pod    { return nil }
func (noPods) Owned(context.Context, *pods.Pod) error { return nil }

// lead makes the replica the leader.
func (r *replica) lead(now time.Time) {
	r.mu.Lock()
	r.from = now
	r.mu.Unlock()
	r.gates.Record("shop", finished(time.Now(), "cart", verdict.Fail, verdict.RelativeRegression))
	i := r.instruments
	i.Incomplete("shop/releases")
	for range 3 {
		i.Attempt("shop/releases", "2xx")
		i.Delivered("shop/releases", "dev.cdevents.service.upgraded.0.3.0", 200*time.Millisecond)
	}
	i.Delivered("shop/releases", "dev.cdevents.environment.created.0.3.0", 200*time.Millisecond)
	i.Attempt("shop/releases", "4xx")
	i.DeadLetter("shop/releases")
	i.Dropped("rejected", 2)
	i.Conflict()
	i.Refused()
	i.Merged(5)
	r.clusters.Polled("complete")
	r.clusters.Refused()
}

// resign makes the replica a standby: its metrics of Services are gone.
func (r *replica) resign(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = now
}

func (r *replica) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{}).ServeHTTP(w, req)
}

// unit is the duration of a step, in which the Service gets 2000 requests. The counts of a step are
// whole numbers, so every ratio is exact whenever it is read.
const unit = 20 * time.Millisecond

// perSecond is the rate of n events in a step.
func perSecond(n float64) float64 { return n / unit.Seconds() }

// Figures implements export.Counts.
func (r *replica) Figures() iter.Seq[attribution.Figures] { return slices.Values(r.figures()) }

// figures are those of a 95/5 Route whose canary handles 36 % and fails a twelfth; by
// entry, both fail 3 %. A third Revision is not known yet.
func (r *replica) figures() []attribution.Figures {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.from.IsZero() || !r.to.IsZero() {
		return nil
	}
	n := float64(time.Since(r.from) / unit)
	times := func(each map[string]float64) map[string]float64 {
		each = maps.Clone(each)
		for k := range each {
			each[k] *= n
		}
		return each
	}
	none := map[string]float64{}
	for _, reason := range attribution.Restarts() {
		none[reason] = 0
	}
	return []attribution.Figures{{
		Service: types.NamespacedName{Namespace: "shop", Name: "cart"}, Stateful: true,
		Revisions: []attribution.RevisionFigures{
			{
				Revision: attribution.Revision{Revision: &lifecycle.Revision{UID: "1", Name: "cart-1"}, Configuration: "cart", Required: ptr(.95)},
				Handled:  times(map[string]float64{"ok": 1280, "error": 0, "timeout": 0}), Share: ptr(.64),
				EnteredAt: times(map[string]float64{"cart-1": 1216, "cart-2": 64}),
				Durations: histogram(n, map[float64]float64{.005: 640, .01: 640}),
				Entered:   times(map[string]float64{"2xx": 1843, "3xx": 0, "4xx": 0, "5xx": 57}),
				Restarts:  none, Members: ptr(2.), Shards: map[string]float64{"Cart": 64}, Unaccounted: ptr(0.), ScrapeAge: ptr(1500 * time.Millisecond),
			},
			{
				Revision: attribution.Revision{Revision: &lifecycle.Revision{UID: "2", Name: "cart-2"}, Configuration: "cart", Required: ptr(.05)},
				Handled:  times(map[string]float64{"ok": 660, "error": 40, "timeout": 20}), Share: ptr(.36),
				Durations: histogram(n, map[float64]float64{.1: 648, .25: 72}),
				// HTTP/2 requests have no outcome, and must not improve the ratio of others.
				Entered:  times(map[string]float64{"2xx": 97, "3xx": 0, "4xx": 0, "5xx": 3, "unknown": 50}),
				Restarts: none, Members: ptr(1.), Shards: map[string]float64{"Cart": 36}, Unaccounted: ptr(4.), ScrapeAge: ptr(time.Second),
			},
			{Revision: attribution.Revision{Revision: &lifecycle.Revision{UID: "3", Name: "cart-3"}, Configuration: "cart"}, Restarts: none},
		},
		NeverStarted: ptr(7.),
		NoData: []attribution.NoData{
			{Revision: "3", Figure: "handled_requests_total", Reason: attribution.NotRead},
			{Figure: "unaccounted_requests", Reason: attribution.CallsPerRequestUnknown},
		},
	}}
}

// Health implements export.Counts.
func (*replica) Health() attribution.Health {
	return attribution.Health{Scrapes: map[string]float64{"success": 7, "timeout": 1}, Rejected: map[string]float64{"fell": 2}, Services: 1, Targets: 4}
}

func ptr[T any](v T) *T { return &v }

// histogram returns a histogram with these counts in the buckets of these bounds.
func histogram(n float64, each map[float64]float64) *attribution.Histogram {
	h := &attribution.Histogram{Buckets: map[float64]uint64{}}
	for _, bound := range attribution.Bounds() {
		h.Count += uint64(math.Round(n * each[bound]))
		h.Sum += n * each[bound] * bound
		h.Buckets[bound] = h.Count
	}
	return h
}

// owing is a ledger with two pending events for one source.
type owing struct{ delivery.Ledger }

func (owing) Backlogs() map[types.UID]ledger.Backlog {
	return map[types.UID]ledger.Backlog{"s": {Pending: 2, Oldest: time.Now().Add(-time.Minute)}}
}

// exported returns the names of all series that a leader exports.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	r := newReplica(t)
	r.lead(time.Now())
	var families []*dto.MetricFamily
	eventually(t, "the cluster is polled", func() bool {
		var err error
		if families, err = r.registry.Gather(); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "cdevents_clusters" })
	})
	names := map[string]bool{}
	for _, f := range families {
		names[f.GetName()] = true
		if f.GetType().String() == "HISTOGRAM" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				names[f.GetName()+suffix] = true
			}
		}
	}
	return names
}
