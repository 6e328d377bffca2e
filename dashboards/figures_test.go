// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"
)

// scrapesOfEach is how often each leader is scraped: enough for a rate on both sides of the change.
const scrapesOfEach = 12

// Every query runs on a Prometheus that has scraped two replicas. The second took over from the
// first within the rate window.
func TestEveryQueryHasData(t *testing.T) {
	first, second, earlier := newReplica(t), newReplica(t), newReplica(t)
	earlier.lead(time.Now()) // Prometheus never saw the lead, only what was counted
	earlier.resign(time.Now())
	prometheus := startPrometheus(t, map[string]http.Handler{"controller-a": first, "controller-b": second, "controller-c": earlier})
	scraped := func(pod string, times int) {
		before := prometheus.scrapes(t, pod)
		eventually(t, "Prometheus scrapes "+pod, func() bool { return prometheus.scrapes(t, pod) >= before+times })
	}
	scraped("controller-a", 1)
	begun := time.Now()
	first.lead(begun)
	scraped("controller-a", scrapesOfEach)
	change := time.Now()
	first.resign(change)
	second.lead(change)
	scraped("controller-b", scrapesOfEach)
	now := time.Now()
	v := Values{Namespace: "shop", Service: "cart", Environment: "production", Interval: now.Sub(change) + 3*time.Second, Step: now.Sub(change) + 3*time.Second, Shown: now.Sub(begun) + 10*time.Second}

	if both := prometheus.at(t, `count(count by (pod) (rate(canary_handled_requests_total[`+promDuration(v.Interval)+`])))`, now); len(both) != 1 || both[0].Value != 2 {
		t.Fatalf("the window does not hold both leaders: %v", both)
	}
	shown := map[string]map[string]float64{}
	for _, b := range Queries(v) {
		key := b.Dashboard + ": " + b.Panel
		if shown[key] == nil {
			shown[key] = map[string]float64{}
		}
		rows := 0
		for _, r := range prometheus.at(t, b.Expr, now) {
			rows++
			if _, twice := shown[key][b.name(r)]; twice {
				t.Errorf("%s: %q is shown twice", key, b.name(r))
			}
			if math.IsNaN(float64(r.Value)) {
				t.Errorf("%s: %q is NaN", key, b.name(r))
			}
			shown[key][b.name(r)] = float64(r.Value)
		}
		if rows == 0 && !strings.HasPrefix(b.Panel, "annotation ") {
			t.Errorf("%s: no data for %s", key, b.Expr)
		}
	}
	t.Run("figures", func(t *testing.T) { checkFigures(t, shown, v) })
	t.Run("each event once", func(t *testing.T) { checkOnce(t, prometheus, begun, now) })
	t.Run("over the change of leader", func(t *testing.T) { checkChange(t, prometheus, begun, now) })
}

// checkFigures compares shown values with exported ones. part is the tolerance: ratios are exact,
// rates depend on the timing of scrapes.
func checkFigures(t *testing.T, shown map[string]map[string]float64, v Values) {
	t.Helper()
	const exact, about = 1e-6, .2
	whole := (v.Shown - 10*time.Second).Seconds()
	for _, c := range []struct {
		panel string
		part  float64
		want  map[string]float64
	}{
		{"variable namespace", exact, map[string]float64{"shop": 1}},
		{"variable service", exact, map[string]float64{"cart": 1}},
		{"variable revision", exact, map[string]float64{"cart-1": 1, "cart-2": 1, "cart-3": 1}},
		{"Required and real share", exact, map[string]float64{
			"cart-1 required": .95, "cart-2 required": .05, "cart-1 handled": .64, "cart-2 handled": .36,
		}},
		{"The Revisions side by side", exact, map[string]float64{
			"Required of cart-2": .05, "Handled of cart-2": .36, "Excess of cart-2": .31, "Excess of cart-1": -.31,
			"Errors by entry of cart-1": .03, "Errors by entry of cart-2": .03, "Errors handled of cart-1": 0, "Errors handled of cart-2": 1. / 12,
			"p95 of cart-1": .0095, "p95 of cart-2": .175, "Unaccounted of cart-2": 4, "Restarts of cart-3": 0,
		}},
		{"The Revisions side by side", about, map[string]float64{"Requests of cart-1": perSecond(1280) * whole, "Requests of cart-2": perSecond(720) * whole}},
		{"Requests by the Revision that handled them", about, map[string]float64{"cart-1": perSecond(1280), "cart-2": perSecond(720), "axis": perSecond(1950)}},
		{"Requests by the Revision where they entered", about, map[string]float64{"cart-1": perSecond(1900), "cart-2": perSecond(150), "axis": perSecond(1950)}},
		{"Errors by entry: what queue-proxy alone would report", exact, map[string]float64{"cart-1": .03, "cart-2": .03, "axis": 1. / 12}},
		{"Errors by the Revision that handled the request", exact, map[string]float64{"cart-1": 0, "cart-2": 1. / 12, "axis": 1. / 12}},
		{"Failed requests by outcome", about, map[string]float64{"cart-2 error": perSecond(40), "cart-2 timeout": perSecond(20), "cart-1 error": 0}},
		{"p50 by the Revision that handled the request", exact, map[string]float64{"cart-1": .005, "cart-2": .05 + .05*360/648}},
		{"p95 by the Revision that handled the request", exact, map[string]float64{"cart-1": .0095, "cart-2": .175}},
		{"p99 by the Revision that handled the request", exact, map[string]float64{"cart-1": .0099, "cart-2": .235}},
		{"Unaccounted requests", exact, map[string]float64{"cart-2 started, not finished": 4, "cart-1 started, not finished": 0, "entered, never started": 7}},
		{"Members of the cluster", exact, map[string]float64{"cart-1": 2, "cart-2": 1}},
		{"Shards", exact, map[string]float64{"cart-1 Cart": 64, "cart-2 Cart": 36}},
		{"Required and real shards", exact, map[string]float64{"cart-1 Cart required": 60, "cart-2 Cart required": 40, "cart-1 Cart real": 64, "cart-2 Cart real": 36}},
		{"Moves of shards", exact, map[string]float64{"Cart pending": 4, "Cart moved": 0, "not converged": 1}},
		{"What is not known, and why", exact, map[string]float64{
			"[figure:handled_requests_total kn_revision_name:cart-3 reason:NotRead]": 1,
			"[figure:unaccounted_requests reason:CallsPerRequestUnknown]":            1,
		}},
		{"Age of the last scrape", exact, map[string]float64{"cart-1": 1.5, "cart-2": 1}},
		{"Pending events", exact, map[string]float64{"shop/releases": 2}},
		// Three from the first leader are outside the window by now, three from the second are
		// inside.
		{"Events accepted by sinks", about, map[string]float64{"dev.cdevents.service.upgraded.0.3.0": 3}},
		{"Dropped events", about, map[string]float64{"rejected": 2}},
		{"Environments by kind", exact, map[string]float64{"Cluster.cluster.x-k8s.io": 12, "Cluster.eks.aws.upbound.io": 0}},
		{"By Service", exact, map[string]float64{
			"Deployments of production": 4, "Stopped of production": 1, "Failed of production": 1, "Fail rate of production": .4,
			"Lead time of production": 600, "Time to restore of production": 30,
		}},
		{"Lead time of changes", exact, map[string]float64{"shop/cart production": 600}},
		{"Time to restore service", exact, map[string]float64{"shop/cart production": 30}},
		{"Verdicts over time", exact, map[string]float64{"cart": 4}},
		{"Verdicts and their reasons", exact, map[string]float64{"Runs of ": 2}}, // each leader has counted one
		{"What the last run has found", exact, map[string]float64{"Canary bad of ": .08, "E-value of ": 75, "Fails at of ": 60, "p over shards of ": .001}},
		{"Evidence for a Fail: the test over shards", exact, map[string]float64{"cart ErrorRate": .001}},
		{"Evidence for a Fail, without the test over shards", exact, map[string]float64{"cart ErrorRate": 75, "cart ErrorRate required": 60}},
		{"Evidence for a Pass", exact, map[string]float64{"cart ErrorRate": .5, "cart ErrorRate required": 20}},
		{"Bad requests", exact, map[string]float64{"cart ErrorRate canary": .08, "cart ErrorRate baseline": .01}},
		{"Requests had and needed", exact, map[string]float64{"cart canary": 120, "cart canary needed": 300, "cart baseline": 900}},
		{"The canary's share", exact, map[string]float64{"cart: handled": .36, "cart-2 required": .05}},
		{"Services by state", exact, map[string]float64{"measured": 1, "rolling out": 1, "without a verdict": 0, "shards misplaced": 1}},
		{"Handled share, how far from the Route, the ten furthest", exact, map[string]float64{"shop/cart": .31}},
		{"Errors, the ten highest", exact, map[string]float64{"shop/cart": .03}},
		{"Attempts that failed", about, map[string]float64{"shop/releases": 1}},
		{"Incomplete events", about, map[string]float64{"shop/releases": 1}},
		{"Kinds that can be read", exact, map[string]float64{"Cluster.cluster.x-k8s.io Readable": 1, "Cluster.eks.aws.upbound.io MayNotRead": 0}},
		{"Events of environments", about, map[string]float64{"dev.cdevents.environment.created.0.3.0": 1}},
		{"Invalid declarations", exact, map[string]float64{"Services": 1}},
		{"From observation to acknowledgement", exact, map[string]float64{"p50": .175}},
	} {
		of := map[string]float64{}
		for key, all := range shown {
			if strings.HasSuffix(key, ": "+c.panel) {
				of = all
			}
		}
		for name, want := range c.want {
			if got, ok := of[name]; !ok || !near(got, want, c.part) {
				t.Errorf("%s: %s is %v (there: %v), want %v; all: %v", c.panel, name, got, ok, want, of)
			}
		}
	}
}

// checkChange checks every moment around the change: no dip, no peak, no gap.
func checkChange(t *testing.T, prometheus server, begun, now time.Time) {
	t.Helper()
	const window = 5 * time.Second
	from := begun.Add(window + time.Second)
	for _, b := range Queries(Values{Namespace: "shop", Service: "cart", Revision: "cart-2", Interval: window}) {
		want, part := 1./12, 1e-6
		switch {
		case b.Axis:
			continue
		case b.Panel == "Requests by the Revision that handled them":
			want, part = perSecond(720), .4
		case b.Panel != "Errors by the Revision that handled the request":
			continue
		}
		lines := prometheus.between(t, b.Expr, from, now)
		if len(lines) != 1 || len(lines[0].Values) != int(now.Sub(from)/scrapeInterval)+1 {
			t.Errorf("%s has gaps: %v", b.Panel, lines)
			continue
		}
		for i, got := range lines[0].Values {
			if !near(float64(got), want, part) {
				t.Errorf("%s is %v at %v, want %v", b.Panel, got, time.Duration(i)*scrapeInterval, want)
			}
		}
	}
}

// checkOnce checks that the bars of a panel add up to the events that there were while Prometheus looked: none is drawn
// twice, and what a replica had counted before its first scrape is not drawn at all.
func checkOnce(t *testing.T, prometheus server, begun, now time.Time) {
	t.Helper()
	for _, b := range Queries(Values{Namespace: "shop", Service: "cart", Step: scrapeInterval}) {
		if b.Panel != "Events accepted by sinks" {
			continue
		}
		drawn := map[string]float64{}
		for _, r := range prometheus.between(t, b.Expr, begun.Add(-2*scrapeInterval), now) {
			for _, v := range r.Values {
				drawn[b.name(r)] += float64(v)
			}
		}
		if drawn["dev.cdevents.service.upgraded.0.3.0"] != 6 || drawn["dev.cdevents.environment.created.0.3.0"] != 2 {
			t.Errorf("two leaders sent 3 and 1 each; drawn: %v", drawn)
		}
		return
	}
	t.Error("no such panel")
}
