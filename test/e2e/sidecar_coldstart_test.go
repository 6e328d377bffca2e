// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// coldStarts is how often each Service is started from zero, in turn.
const coldStarts = 20

// coldStart is a Service that is scaled to zero, and how long its first requests took.
type coldStart struct {
	name string
	app  *kit.Cart
	url  *url.URL
	took []time.Duration
}

// TestSidecarColdStart compares how long the first request to a Service without pods takes, with the sidecar and without
// it. It checks nothing but that there are answers: "make bench-sidecar" prints the ratios.
func TestSidecarColdStart(t *testing.T) {
	if os.Getenv("E2E_COMPARE") == "" || !suite.Own() {
		t.Skip("make bench-sidecar: it needs a quiet machine, and the cluster made by test/cluster")
	}
	withInjector(t)
	s := emptyScene(t)
	s.releasedServing()
	container, inQueueProxy := s.plain(), emptyScene(t).plain()
	container.Annotations = map[string]string{}
	inQueueProxy.Annotations = map[string]string{"stateful.knative-cdevents.dev/proxy": "queue-proxy"}
	starts := []*coldStart{
		{name: "without", app: emptyScene(t).notOptedIn().Bare()}, {name: "container", app: container}, {name: "queue-proxy", app: inQueueProxy},
	}
	in, err := suite.Services.Ingress(t.Context())
	s.must(err)
	for _, c := range starts {
		maps.Copy(c.app.Annotations, map[string]string{
			"autoscaling.knative.dev/min-scale": "0", "autoscaling.knative.dev/max-scale": "1", "autoscaling.knative.dev/window": "6s",
			"autoscaling.knative.dev/scale-to-zero-pod-retention-period": "0s",
		})
		s.must(suite.Carts.DeployAlone(t.Context(), c.app))
		c.url, err = suite.Carts.URL(t.Context(), c.app)
		s.must(err)
		c.url = c.url.JoinPath("cart", "cart-1")
	}
	for range coldStarts {
		for _, c := range starts {
			c.start(s, in)
		}
	}
	base := starts[0].median()
	for _, c := range starts {
		t.Logf("%-12s p50 %.2f times that without a sidecar (%s; %s)", c.name, ratio(c.median(), base), c.median().Round(time.Millisecond),
			fmt.Sprint(c.took))
	}
}

func (c *coldStart) start(s *scene, in *kit.Ingress) {
	s.Helper()
	s.must(kit.Wait(s.Context(), 3*time.Minute, c.name+" to have no pods", func(ctx context.Context) error {
		pods, err := suite.Carts.Pods(ctx, c.app) // those that end take half a minute, and no requests
		if err == nil && len(pods) > 0 {
			err = kit.NotYet("%d run", len(pods))
		}
		return err
	}))
	began := time.Now()
	a, err := in.Get(s.Context(), c.url)
	s.must(err)
	if c.name != "without" && a.Status != http.StatusOK {
		s.Fatalf("%s: %d", c.name, a.Status)
	}
	c.took = append(c.took, time.Since(began))
}

func (c *coldStart) median() time.Duration {
	return slices.Sorted(slices.Values(c.took))[len(c.took)/2]
}
