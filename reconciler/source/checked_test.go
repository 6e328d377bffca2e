// SPDX-License-Identifier: Apache-2.0

package source

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	httptransport "github.com/knative-cdevents/knative-cdevents/emitter/transport/http"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source/valid"
)

// hostile makes a source as expensive to check as validation allows.
func hostile(s *v1alpha1.CDEventSource) {
	for range 4 {
		s.Spec.Filters = append(s.Spec.Filters, v1alpha1.Filter{Any: []v1alpha1.Filter{
			{CESQL: strings.Repeat("TRUE AND ", 112) + "TRUE"}, {All: []v1alpha1.Filter{{CESQL: "FALSE"}}},
		}})
	}
}

// A source is reconciled every ten seconds, even without changes.
func TestSpecIsCheckedOncePerGeneration(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	read := 0
	h.checked.check = func(s *v1alpha1.CDEventSource, system string) *valid.ProblemError {
		read++
		return valid.Spec(s, system)
	}
	s := newSource(hostile)
	for range 20 {
		s = h.settle(s)
	}
	if !s.Status.IsReady() || read != 1 {
		t.Errorf("checked %d times; %+v", read, s.Status.Conditions)
	}
	s.Generation, s.Spec.Filters = 2, []v1alpha1.Filter{{CESQL: "1 + 1"}}
	for range 5 {
		s = h.settle(s)
	}
	if s.Status.IsReady() || read != 2 {
		t.Errorf("checked %d times; %+v", read, s.Status.Conditions)
	}
	// A recreated source of the same name is checked again.
	remade := newSource(func(s *v1alpha1.CDEventSource) { s.UID = "u2" })
	if remade = h.settle(remade); !remade.Status.IsReady() || read != 3 {
		t.Errorf("checked %d times; %+v", read, remade.Status.Conditions)
	}
}

func TestCheckingSpecsLeaksNoGoroutines(t *testing.T) {
	s := newSource(hostile)
	before := runtime.NumGoroutine()
	for range 20 {
		if err := valid.Check(s, systemNamespace, httptransport.Schemes); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(10 * time.Millisecond)
	if now := runtime.NumGoroutine(); now > before+2 {
		t.Errorf("%d goroutines more than before", now-before)
	}
}
