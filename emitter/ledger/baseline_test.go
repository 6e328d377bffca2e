// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

func TestBaselineIsTakenOnce(t *testing.T) {
	t.Parallel()
	s := store.New()
	s.Now = func() time.Time { return noon }
	b := ledger.Baselines{Client: store.Baselines{Store: s}}
	first, err := b.Since(t.Context(), "services.serving.knative.dev")
	must(t, err)
	s.Now = func() time.Time { return noon.Add(time.Hour) }
	second, err := b.Since(t.Context(), "services.serving.knative.dev")
	must(t, err)
	if !first.Equal(noon) || !second.Equal(noon) || len(s.All()) > 0 {
		t.Errorf("%v, then %v; entries %v", first, second, s.All())
	}
	s.Before = func(string, string) error { return errors.New("down") }
	if _, err := b.Since(t.Context(), "routes"); err == nil || !strings.Contains(err.Error(),
		"CDEventBaseline routes, which records since when events about routes are sent: down") {
		t.Errorf("got %v", err)
	}
}

// A controller dies before it has kept the time that the API server says.
func TestBaselineIsTakenAfterACrash(t *testing.T) {
	t.Parallel()
	s := store.New()
	s.Now = func() time.Time { return noon }
	b := ledger.Baselines{Client: store.Baselines{Store: s}}
	s.Before = func(verb, _ string) error {
		if verb == "update" {
			return errors.New("crash")
		}
		return nil
	}
	if _, err := b.Since(t.Context(), "services"); err == nil {
		t.Error("a baseline that is not kept counts")
	}
	s.Before, s.Now = nil, func() time.Time { return noon.Add(time.Hour) }
	if got, err := b.Since(t.Context(), "services"); err != nil || !got.Equal(noon) {
		t.Errorf("%v, %v", got, err)
	}
}

// A tool for backups creates the object anew, with another creationTimestamp and without a status.
func TestRestoredBaselineKeepsItsTime(t *testing.T) {
	t.Parallel()
	s := store.New()
	s.Now = func() time.Time { return noon }
	since := metav1.NewTime(noon.Add(-24 * time.Hour))
	restored := &v1alpha1.CDEventBaseline{
		ObjectMeta: metav1.ObjectMeta{Name: "services"},
		Spec:       v1alpha1.CDEventBaselineSpec{Since: &since},
	}
	client := store.Baselines{Store: s}
	_, err := client.Create(t.Context(), restored, metav1.CreateOptions{})
	must(t, err)
	b := ledger.Baselines{Client: client}
	if got, err := b.Since(t.Context(), "services"); err != nil || !got.Equal(since.Time) {
		t.Errorf("%v, %v", got, err)
	}
	must(t, b.SetCondition(t.Context(), "services", metav1.Condition{
		Type: "Readable", Status: metav1.ConditionTrue,
		Reason: "Reads",
	}))
	if got := s.Baseline("services"); len(got.Status.Conditions) != 1 || !got.Spec.Since.Equal(&since) {
		t.Errorf("%+v", got)
	}
}
