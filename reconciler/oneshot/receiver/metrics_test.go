// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/knative-cdevents/knative-cdevents/reconciler/authserver"
	"github.com/knative-cdevents/knative-cdevents/reconciler/oneshot"
)

// Rings are counted by what came of them; what is not a ring of an allowed sender is not. It sets the process' provider of
// meters, so nothing runs beside it.
func TestRingsAreCounted(t *testing.T) { //nolint:paralleltest // see above
	before := otel.GetMeterProvider()
	t.Cleanup(func() { otel.SetMeterProvider(before) })
	reader := sdkmetric.NewManualReader()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	instruments, err := NewInstruments()
	if err != nil {
		t.Fatal(err)
	}
	c := &core{}
	with := func(h *Handler) { h.Instruments = instruments }
	h := newHandler(c, with)
	ask(t, h, aboutCart())
	ask(t, h, structured(`{"specversion":"1.0","id":"1","source":"/a","type":"dev.knative.sources.ping"}`))
	ask(t, h, without("Ce-Name"))
	c.do = func(context.Context) error { return errors.New("the API server is down") }
	ask(t, h, aboutCart())
	c.do = func(context.Context) error { return &oneshot.NotFollowedError{} }
	ask(t, h, aboutCart())
	ask(t, newHandler(c, with, func(h *Handler) { h.Guard = guard{&authserver.RefusedError{Status: http.StatusForbidden}} }), aboutCart())

	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				kind, _ := p.Attributes.Value("kind")
				result, _ := p.Attributes.Value("result")
				got[kind.AsString()+" "+result.AsString()] = p.Value
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				kind, _ := p.Attributes.Value("kind")
				got[kind.AsString()+" timed"] = int64(p.Count) //nolint:gosec // a handful
			}
		}
	}
	for what, want := range map[string]int64{
		"change answered": 1, "change refused": 2, "change failed": 1, "change timed": 4,
		"sweep answered": 1, "sweep refused": 0, "sweep failed": 0, "sweep timed": 1,
	} {
		if n, ok := got[what]; !ok || n != want {
			t.Errorf("%s: %d, want %d", what, n, want)
		}
	}
}

// Whoever scrapes needs no token, and cannot ring by it.
func TestMetricsAreServed(t *testing.T) {
	t.Parallel()
	c := &core{}
	h := newHandler(c, func(h *Handler) {
		h.Guard = guard{&authserver.RefusedError{Status: http.StatusUnauthorized}}
		h.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	})
	for method, want := range map[string]int{http.MethodGet: http.StatusOK, http.MethodPost: http.StatusUnauthorized} {
		if got := ask(t, h, httptest.NewRequestWithContext(t.Context(), method, "/metrics", nil)); got.Code != want {
			t.Errorf("%s: %d", method, got.Code)
		}
	}
	if c.got() != "" {
		t.Errorf("it rang %s", c.got())
	}
}
