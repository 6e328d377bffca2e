// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// A sidecar that does not answer has a log.
func TestSidecarDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for _, err := range []error{ErrNoRoute, errors.New("connection refused")} {
		if got := because(err, v1alpha1.RuntimeSidecar); !strings.Contains(got, "log of the container stateful-sidecar") {
			t.Errorf("%v: %s", err, got)
		}
	}
	if got := because(nil, v1alpha1.RuntimeSidecar); got != "" {
		t.Error(got)
	}
}

// A missing sidecar is trouble, whether or not the other pods answer.
func TestPodWithoutItsSidecar(t *testing.T) {
	t.Parallel()
	declared := v1alpha1.Stateful{Runtime: v1alpha1.RuntimeSidecar, ManagementPort: v1alpha1.SidecarManagementPort}
	s := newFakeCluster(v1alpha1.RuntimeSidecar)
	lacks, has := s.pod("10.0.0.1", 1), s.pod("10.0.0.2", 1)
	lacks.Declared, has.Declared, has.Sidecar = declared, declared, true
	for name, answer := range map[string]func(){"no pod answers": func() {}, "one pod answers": func() { s.say(has.IP) }} {
		answer()
		o := Observe(s.pods, s.answers, 0)
		if o.seen.State != lifecycle.ClusterDegraded || o.LackSidecar() != 1 || o.Whole() {
			t.Errorf("%s: %+v", name, o)
		}
		for _, says := range []string{"1 of 2 pods", lacks.Name, "stateful-sidecar", "knative-cdevents.dev/sidecar=enabled"} {
			if !strings.Contains(o.seen.Note, says) {
				t.Errorf("%s: it does not say %q: %s", name, says, o.seen.Note)
			}
		}
		var tracker Tracker
		now := time.Now()
		tracker.Next(o, now)
		for range confirmPolls { // the last ones come after a pod that lags is trouble, too
			now = now.Add(2 * movePatience)
			c := tracker.Next(o, now)
			if trouble := c.Trouble[lifecycle.ClusterTrouble]; trouble == nil || trouble.Reason != "SidecarMissing" || c.Note != trouble.Message {
				t.Errorf("%s: %+v, %s", name, trouble, c.Note)
			}
		}
	}
	lacks.Sidecar = true
	s.say(lacks.IP, has.IP)
	if o := Observe(s.pods, s.answers, 0); o.LackSidecar() != 0 || !o.Whole() {
		t.Errorf("%+v", o)
	}
}
