// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// TestSidecarConformance runs Knative's own tests of what a container meets: without a sidecar, and with both forms of
// it. What passes without it passes with it.
func TestSidecarConformance(t *testing.T) {
	if os.Getenv("E2E_CONFORMANCE") == "" || !suite.Own() {
		t.Skip("make conformance-sidecar: it builds the tests of Knative Serving, for the cluster made by test/cluster")
	}
	withInjector(t)
	tests, err := suite.Services.Conformance(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// The requests have no key of their own. This is one that all of them have, so each is handled by the one pod that has
	// its shard.
	sidecar := map[string]string{
		v1alpha1.AnnotationRuntime: string(v1alpha1.RuntimeSidecar), v1alpha1.AnnotationPlacement: string(v1alpha1.PlacementEnforce),
		v1alpha1.AnnotationKey: "header:User-Agent",
	}
	inQueueProxy := maps.Clone(sidecar)
	inQueueProxy[v1alpha1.AnnotationProxy] = v1alpha1.ProxyQueueProxy
	without := map[string]string{}
	for _, form := range []struct {
		name        string
		annotations map[string]string
	}{{"Without", nil}, {"Container", sidecar}, {"InQueueProxy", inQueueProxy}} {
		t.Run(form.name, func(t *testing.T) {
			s := emptyScene(t)
			s.releasedServing()
			s.must(suite.Injector.OptIn(t.Context(), s.ns))
			s.must(tests.Prepare(t.Context(), s.ns))
			results, out, err := tests.Run(t.Context(), s.ns, form.annotations)
			s.must(err)
			count := map[string]int{}
			for _, how := range results {
				count[how]++
			}
			t.Logf("%v", count)
			if form.annotations == nil {
				without = results
				if count["PASS"] <= count["FAIL"] {
					t.Fatalf("so few pass without a sidecar that the others prove nothing\n%s", out)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(without)) {
				switch {
				case without[name] == "FAIL":
					t.Logf("%s fails without a sidecar", name)
				case results[name] != without[name]:
					t.Errorf("%s: %q, without a sidecar %s", name, results[name], without[name])
				}
			}
			if t.Failed() || count["FAIL"] > 0 {
				t.Log(out)
			}
		})
	}
}
