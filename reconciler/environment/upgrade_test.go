// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// sleep folds the same state of the object at each wake until then.
func (s *story) sleep(u *unstructured.Unstructured, until time.Time) (folds int) {
	s.t.Helper()
	for ; !s.wake.IsZero() && !s.wake.After(until); folds++ {
		s.now = s.wake
		s.see(u)
	}
	s.now = until
	return folds
}

// While EKS upgrades a control plane, its object stays Ready, and the Cluster is not touched, neither then nor later.
func TestUpgradeThatTheClusterDoesNotShow(t *testing.T) {
	t.Parallel()
	plane := func(spec, status string) *unstructured.Unstructured {
		return fromYAML(t, "apiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: AWSManagedControlPlane\nmetadata: {name: prod, namespace: fleet}\n"+
			"spec: {version: "+spec+"}\nstatus: {version: "+status+", ready: true}")
	}
	a := newAPI(plane("v1.32", "v1.32"))
	s := a.story(t, clusterKind, Target{})
	cluster := fromYAML(t, strings.NewReplacer("HOST", "prod.example.com", "PORT", "6443").Replace(clusterAt))
	s.see(cluster)
	s.sleep(cluster, s.now.Add(time.Hour))
	a.put(plane("v1.33", "v1.32")) // the upgrade begins
	s.sleep(cluster, s.now.Add(20*time.Minute))
	if want := []string{"ClusterAPIClusterCreated", "EnvironmentCreated"}; !slices.Equal(s.names, want) {
		t.Fatalf("told %v before the upgrade was done", s.names)
	}
	a.put(plane("v1.33", "v1.33"))
	done := s.now
	s.sleep(cluster, s.now.Add(5*time.Minute))
	last := s.last()
	if last.Type != lifecycle.EnvironmentModified || !slices.Equal(last.Environment.Changed, []string{"version"}) ||
		last.Environment.Version != "v1.33" {
		t.Fatalf("told %v, at last %+v", s.names, last.Environment)
	}
	if late := last.Time.Sub(done); late > 2*time.Minute {
		t.Errorf("told %s after the upgrade", late)
	}
	if n := s.sleep(cluster, s.now.Add(time.Hour)); n > 61 || len(s.told) != 3 {
		t.Errorf("%d folds in an hour, told %v", n, s.names)
	}
}

// A topology has the version itself: nothing is asked for.
func TestNothingIsPolledForATopology(t *testing.T) {
	t.Parallel()
	s := newAPI().story(t, clusterKind, Target{})
	u := fromYAML(t, strings.NewReplacer("HOST", "prod.example.com", "PORT", "6443").Replace(clusterAt))
	u.Object["spec"] = map[string]any{"topology": map[string]any{"version": "v1.33.0"}}
	s.see(u)
	s.sleep(u, s.now.Add(time.Hour))
	if !s.wake.IsZero() {
		t.Errorf("wakes at %s", s.wake)
	}
}
