// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// judgeWritten checks that the history in an object that was written has the last transitions, without gaps, and agrees
// with the journal.
func (w *world) judgeWritten(o *v1alpha1.CDEventSubject) {
	st := &o.Status
	history, err := st.PastTransitions()
	if err != nil {
		w.fail("%s: %v", o.Name, err)
	}
	if want := min(st.Sequence, ledger.MaxHistory); int64(len(history)) != want {
		w.fail("%s: the history has %d of %d transitions, want %d", o.Name, len(history), st.Sequence, want)
		return
	}
	first := st.Sequence - int64(len(history)) + 1
	for i, p := range history {
		if p.Sequence != first+int64(i) {
			w.fail("%s: the history has %d where %d is expected", o.Name, p.Sequence, first+int64(i))
			return
		}
	}
	for _, j := range st.Journal {
		if j.Sequence < first {
			continue
		}
		if p := history[j.Sequence-first]; p.Type != j.Type || !p.Time.Equal(&j.Time) {
			w.fail("%s: transition %d is %s in the journal and %s in the history", o.Name, j.Sequence, j.Type, p.Type)
		}
	}
}

// judgeHistory checks that each event that a sink received is in the history, unless 20 came after it.
func (w *world) judgeHistory(uid types.UID, mine []delivered) {
	o := w.entry(uid)
	if o == nil {
		return
	}
	history, err := o.Status.PastTransitions()
	if err != nil || len(history) == 0 {
		return // judgeWritten reports an error
	}
	for _, d := range mine {
		if d.era != w.cluster.era || !d.time.After(history[0].Time.Time) {
			continue
		}
		if !slices.ContainsFunc(history, func(p v1alpha1.PastTransition) bool {
			return p.Time.Time.Equal(d.time) && announces(d.typ, p.Type)
		}) {
			w.fail("%s: %s of %s was sent, and is not in the history", uid, d.typ, d.time)
		}
	}
	w.judgePerformance(o, mine)
}

// judgePerformance checks that what was announced is counted, each once; after a backup was restored, at most once.
func (w *world) judgePerformance(o *v1alpha1.CDEventSubject, mine []delivered) {
	want, got := int64(0), int64(0)
	for _, d := range mine {
		if kind := short(d.typ); kind == "deployed" || kind == "upgraded" {
			want++
		}
	}
	if p := o.Status.Performance; p != nil {
		got = p.Deployments
	}
	if got != want && (w.cluster.era == 0 || got > want) { // a backup forgets what was announced after it
		w.fail("%s: %d deployments are counted, and %d were announced", o.Name, got, want)
	}
}

func announces(event, transition string) bool {
	for _, version := range []string{cdevents.Version05, cdevents.Version04} {
		if typ, err := cdevents.Type(version, lifecycle.Type(transition)); err == nil && typ == event {
			return true
		}
	}
	return false
}
