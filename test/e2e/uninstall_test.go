// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// TestUninstallAndInstall uninstalls the controller, which leaves nothing behind and no trace on a Service, and
// installs it again, which reports nothing about Services that exist already.
func TestUninstallAndInstall(t *testing.T) {
	if suite.installed {
		t.Skip("E2E_INSTALLED asks to leave the controller alone")
	}
	// The other tests' namespaces must not count as remains of the controller.
	if err := deleteNamespaces(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := newScene(t)
	s.source("source", service("sink"))
	s.deploy("shop")
	s.sink.exactly(t, birth)

	t.Cleanup(func() {
		// The next test needs a controller, whatever happened to this one.
		ctx := context.WithoutCancel(t.Context())
		if _, err := suite.Controller.Deployment(ctx); err != nil {
			s.must(suite.Controller.Install(ctx))
		}
	})
	present, err := objects(t.Context())
	s.must(err)
	s.must(suite.Controller.Uninstall(t.Context()))
	s.must(kit.Wait(t.Context(), time.Minute, "the objects from before the installation", func(ctx context.Context) error {
		after, err := objects(ctx)
		if err != nil {
			return err
		}
		if left := s.left(after); len(left) > 0 {
			return kit.NotYet("uninstalling left %s", strings.Join(left, ", "))
		}
		for name := range suite.before {
			if present[name] && !after[name] {
				return fmt.Errorf("uninstalling deleted %s, which is not the controller's", name)
			}
		}
		return nil
	}))
	s.noTrace()

	s.must(suite.Controller.Install(t.Context()))
	s.source("source", service("sink"))
	s.deploy("other")
	s.sink.exactly(t, birth, about("other"))
	// The baseline is silent: there are only the four events from before.
	s.sink.exactly(t, birth, about("shop"))

	s.must(suite.Services.Update(t.Context(), s.ns, "shop", func(svc *servingv1.Service) { kit.SetVersion(svc, "two") }))
	s.sink.exactly(t, slices.Concat(birth, []string{revisionReady, upgraded}), about("shop"))
	s.must(suite.Services.Delete(t.Context(), s.ns, "shop"))
	s.sink.exactly(t, slices.Concat(birth, []string{revisionReady, upgraded, removed}), about("shop"))
}

// noTrace checks that Service shop has nothing that the controller could have written.
func (s *scene) noTrace() {
	s.Helper()
	svc, err := suite.Serving.ServingV1().Services(s.ns).Get(s.Context(), "shop", metav1.GetOptions{})
	s.must(err)
	if text := compact(svc); strings.Contains(text, "cdevents.dev") || len(svc.Finalizers) > 0 {
		s.Errorf("the Service still has a trace of the controller: %s", text)
	}
}

// left returns the objects that did not exist before and do not belong to this test.
func (s *scene) left(after map[string]bool) []string {
	return slices.Sorted(func(yield func(string) bool) {
		for name := range maps.Keys(after) {
			if !suite.before[name] && !strings.Contains(name, s.ns) && !yield(name) {
				return
			}
		}
	})
}

// objects returns the names of all objects in the cluster: resource, namespace and name.
func objects(ctx context.Context) (map[string]bool, error) {
	all, err := takeInventory(ctx)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for name := range all {
		names[name] = true
	}
	return names, nil
}

func decode(data []byte, into any) error {
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("reading the API server's answer: %w", err)
	}
	return nil
}
