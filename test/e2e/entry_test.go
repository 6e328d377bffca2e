// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"testing"
	"time"

	"knative.dev/serving/pkg/apis/autoscaling"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// sight is what queue-proxy's two metric families count, by status.
type sight struct{ http, serving kit.Outcomes }

// TestEntryMetrics sends requests that fail in several ways, and checks what queue-proxy's two families and the
// controller count. Neither family sees every failure, and one that both miss must not be reported as a success.
func TestEntryMetrics(t *testing.T) {
	if !suite.full || suite.guest || !suite.Own() {
		t.Skip("it asks pods at their addresses, and takes a minute: make e2e-full")
	}
	s := newScene(t)
	ctx := t.Context()
	s.awake("shop", "")
	s.awake("calls", "h2c")
	one := &http.Client{Timeout: time.Minute}
	impatient := &http.Client{Timeout: 300 * time.Millisecond}
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	h2c := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	for _, row := range []struct {
		what, service, port, path, contentType string
		n                                      int
		client                                 *http.Client
		want                                   sight
	}{
		{"answers", "shop", "8012", "/", "text/plain", 20, one, sight{kit.Outcomes{"200": 20}, kit.Outcomes{"200": 20}}},
		{"gRPC errors", "calls", "8013", "/", "application/grpc", 4, h2c, sight{kit.Outcomes{"200": 4}, kit.Outcomes{"200": 4}}},
		{"aborts in the middle", "shop", "8012", "/abort", "text/plain", 5, one, sight{kit.Outcomes{}, kit.Outcomes{"500": 5}}},
		{"cut by the time-out", "shop", "8012", "/stall", "text/plain", 3, one, sight{kit.Outcomes{"200": 3}, kit.Outcomes{"500": 3}}},
		{"clients that went away", "shop", "8012", "/sleep", "text/plain", 7, impatient, sight{kit.Outcomes{"200": 7}, kit.Outcomes{"200": 7}}},
	} {
		before, pod, err := s.seen(ctx, row.service)
		s.must(err)
		for range row.n {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+pod+":"+row.port+row.path, nil)
			s.must(err)
			request.Header.Set("Content-Type", row.contentType)
			request.Host = row.service + "." + s.ns + ".example.com"
			if response, err := row.client.Do(request); err == nil {
				_, _ = io.Copy(io.Discard, response.Body) // an aborted response is expected
				_ = response.Body.Close()
			}
		}
		var got sight
		err = kit.Wait(ctx, 20*time.Second, "counters for "+row.what, func(ctx context.Context) error {
			now, _, err := s.seen(ctx, row.service)
			if err != nil {
				return err
			}
			got = sight{less(now.http, before.http), less(now.serving, before.serving)}
			if !reflect.DeepEqual(got, row.want) {
				return kit.NotYet("http_server has %v and kn_serving %v, want %v", got.http, got.serving, row.want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		t.Logf("%d %s: http_server %v, kn_serving %v", row.n, row.what, got.http, got.serving)
	}

	for name, want := range map[string]kit.Outcomes{"shop": {"2xx": 30, "5xx": 8}, "calls": {"unknown": 4}} {
		s.must(kit.Wait(ctx, 4*readEvery, "complete totals of the controller for "+name, func(ctx context.Context) error {
			m, err := suite.Carts.MeasuredOf(ctx, s.ns, name)
			if err != nil {
				return err
			}
			if got := m.Counts("canary_entry_requests_total", "code_class")[kit.RevisionName(name, 1)]; !reflect.DeepEqual(got, want) {
				return kit.NotYet("totals: %v, want %v", got, want)
			}
			return nil
		}))
	}
}

// awake deploys an ordinary Service with one pod that does not scale to zero.
func (s *scene) awake(name, protocol string) {
	s.Helper()
	app := kit.App(s.ns, name, suite.app, "one")
	app.Spec.Template.Annotations = map[string]string{autoscaling.MinScaleAnnotationKey: "1", autoscaling.MaxScaleAnnotationKey: "1"}
	if protocol != "" {
		kit.SetProtocol(app, protocol)
	}
	s.must(suite.Services.Create(s.Context(), app))
	_, err := suite.Services.Wait(s.Context(), s.ns, name, "")
	s.must(err)
}

// seen returns queue-proxy's counters for a Service with one pod, and the pod's address.
func (s *scene) seen(ctx context.Context, service string) (sight, string, error) {
	http, serving, address, err := suite.Carts.AtEntry(ctx, s.ns, service)
	return sight{http: http, serving: serving}, address, err
}

func less(now, before kit.Outcomes) kit.Outcomes {
	out := kit.Outcomes{}
	for status, n := range now {
		if n > before[status] {
			out[status] = n - before[status]
		}
	}
	return out
}
