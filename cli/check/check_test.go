// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
)

func TestKubernetes(t *testing.T) {
	for v, want := range map[string]State{
		"v1.36.3": OK, "v1.34.0": OK, "v1.34.1-gke.100": OK, "v1.33.9": Failure, "v1.35.2+k3s1": OK, "unknown": Warning,
	} {
		if got := kubernetes(v); got.State != want || (got.Do == "") != (want == OK) {
			t.Errorf("%s: %+v", v, got)
		}
	}
}

func TestServing(t *testing.T) {
	for v, want := range map[string]State{
		"1.23.0": OK, "1.19.1": OK, "1.19.0": Failure, "v1.21.3": OK, "1.18.2": Failure, "v0.26.0": Failure, "devel": Unknown, "": Unknown,
	} {
		if got := servingVersion("Knative Serving", v); got.State != want || (got.Do == "") != (want != Failure) {
			t.Errorf("%s: %+v", v, got)
		}
	}
}

// The plugin asks for what the page promises, what the chart accepts, and what the controller refuses.
func TestVersionsAreThoseOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/support.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		"| Kubernetes | " + testedKubernetes + " | " + oldestKubernetes + " |",
		"| Knative Serving | " + testedServing + " | " + oldestServing + " |",
	} {
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/support.md has no row that begins with %q", row)
		}
	}
	chart, err := os.ReadFile("../../charts/knative-cdevents/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if want := `kubeVersion: ">=` + oldestKubernetes + `.0-0"`; !strings.Contains(string(chart), want) {
		t.Errorf("Chart.yaml has no line %s", want)
	}
	controller, err := os.ReadFile("../../reconciler/service/version.go")
	if err != nil {
		t.Fatal(err)
	}
	if want := `= "v` + oldestServing + `"`; !strings.Contains(string(controller), want) {
		t.Errorf("the controller's least version of Serving is not %s", oldestServing)
	}
}

func TestClock(t *testing.T) {
	for skew, want := range map[time.Duration]struct {
		state State
		what  string
	}{
		0:                        {OK, "agree"},
		-1500 * time.Millisecond: {OK, "agree"},
		3 * time.Second:          {Warning, "3s ahead of"},
		-3 * time.Second:         {Warning, "3s behind"},
		-90 * time.Second:        {Failure, "1m30s behind"},
	} {
		if got := ofClock("Clock", "this machine's clock", skew); got.State != want.state || !strings.Contains(got.What, want.what) {
			t.Errorf("%s: %+v", skew, got)
		}
	}
}

func TestReady(t *testing.T) {
	of := func(ready, replicas int32) string {
		d := &appsv1.Deployment{}
		d.Spec.Replicas, d.Status.ReadyReplicas = &replicas, ready
		return readiness(d)
	}
	if one, some := of(1, 1), of(2, 3); one != "1 of 1 replica is ready" || some != "2 of 3 replicas are ready" {
		t.Errorf("%q and %q", one, some)
	}
}
