// SPDX-License-Identifier: Apache-2.0

package wal_test

import (
	"bytes"
	"compress/gzip"
	"math"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger/wal"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// edit does what a user does with kubectl.
func edit(t *testing.T, s *store.Store, name string, f func(*v1alpha1.CDEventSubjectStatus)) {
	t.Helper()
	o := s.Peek(name).DeepCopy()
	f(&o.Status)
	if _, err := s.Update(t.Context(), o, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func zip(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A slot gets a position that cannot be there. Its states are kept, even if it is overwritten before they are in checkpoints.
func TestEditedPosition(t *testing.T) {
	t.Parallel()
	for name, to := range map[string]int64{"none": 0, "that of another slot": 2, "lower": 5, "higher": 8 + 2, "much higher": 1000, "negative": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store.New()
			a := start(t, s, 8)
			a.slots()
			x, y := a.create("x"), a.create("y")
			a.update(x, "1")
			a.update(y, "1")
			edit(t, s, "log-001", func(st *v1alpha1.CDEventSubjectStatus) { st.Sequence = to })
			if got := view(s); got["x"] != "1" || got["y"] != "1" {
				t.Errorf("users see %v", got)
			}
			a.follow()
			for _, p := range []*process{start(t, s, 8), a} {
				p.follow()
				p.want("x", "1")
				if _, err := p.Update(t.Context(), next(p.current("y"), "2"), metav1.UpdateOptions{}); err != nil { // perhaps after a conflict
					_, err = p.Update(t.Context(), next(p.current("y"), "2"), metav1.UpdateOptions{})
					if err != nil {
						t.Error(err)
					}
				}
				p.updates(p.current("y"), 12)
				start(t, s, 8).want("x", "1")
				start(t, s, 8).want("y", "11")
			}
		})
	}
}

// What is committed after somebody has edited the revision of a checkpoint is the newest state, for everyone.
func TestEditedRevision(t *testing.T) {
	t.Parallel()
	for name, to := range map[string]int64{"highest": math.MaxInt64, "next to it": math.MaxInt64 - 1, "lowest": math.MinInt64, "negative": -1, "none": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store.New()
			a := start(t, s, 8)
			a.slots()
			a.update(a.create("x"), "1")
			a.checkpoints()
			a.follow()
			edit(t, s, "service-x", func(st *v1alpha1.CDEventSubjectStatus) { st.Revision = to })
			a.follow()
			a.checkpoints()
			for _, p := range []*process{a, start(t, s, 8), a} {
				p.follow()
				for _, says := range []string{"2", "3", "4"} {
					p.update(p.current("x"), says)
					p.want("x", says)
				}
			}
			start(t, s, 8).want("x", "4")
			a.checkpoints()
			start(t, s, 8).want("x", "4")
		})
	}
}

// A slot with the end of what is in doubt cannot be read. Neither the doubt nor a reader waits for that slot to be overwritten.
func TestEditedSlotOfWhatIsInDoubt(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 8)
	a.slots()
	x := a.create("x")
	b := start(t, s, 8)
	b.remove(x)
	edit(t, s, "log-001", func(st *v1alpha1.CDEventSubjectStatus) { st.Compressed = []byte("edited by hand") })
	putBack(t, s, x)
	b.follow()
	b.checkpoints()
	if _, err := b.Get(t.Context(), "service-x", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// A slot has what the log never writes. It is reported as unreadable, and the rest goes on.
func TestEditedStates(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"too many":        "{}\n" + strings.Repeat("{}\n", 1<<15),
		"a slot":          `{}` + "\n" + `{"metadata":{"name":"log-003"},"spec":{"kind":"Log","apiVersion":"knative-cdevents.dev/v1alpha1"},"status":{"revision":5}}`,
		"named like one":  `{}` + "\n" + `{"metadata":{"name":"log-003"},"spec":{"kind":"Service","apiVersion":"v1"},"status":{"revision":5,"removed":true}}`,
		"highest version": `{}` + "\n" + `{"metadata":{"name":"service-y"},"status":{"revision":9223372036854775807,"lastEvent":"0"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store.New()
			a := start(t, s, 8)
			a.slots()
			a.update(a.create("x"), "1")
			a.checkpoints()
			a.create("y")
			edit(t, s, "log-001", func(st *v1alpha1.CDEventSubjectStatus) { st.Compressed = zip(t, text) })
			b := start(t, s, 8)
			if _, err := wal.ContentOf(s.Peek("log-001")); (err == nil) != (name == "highest version") {
				t.Errorf("reading the slot: %v", err)
			}
			b.want("x", "1")
			b.updates(b.current("x"), 12)
			b.follow()
			b.checkpoints()
			b.want("x", "11")
			start(t, s, 8).want("x", "11")
		})
	}
}
