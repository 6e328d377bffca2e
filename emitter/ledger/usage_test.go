// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// flood is a router with one source of the operator and many of a tenant. The tenant changes
// the rendering profile ("form") of each source before each event.
type flood struct {
	everyone
	tenants, turn, form int
	// light is how many of the tenant's sources have a small form that never changes.
	light int
}

func (*flood) Exists(types.UID) bool { return true }

func (f *flood) Recipients(v1alpha1.CDEventSubjectSpec, ledger.Labels, lifecycle.Transition) []ledger.Recipient {
	out := everyone{"operator"}.Recipients(v1alpha1.CDEventSubjectSpec{}, ledger.Labels{}, lifecycle.Transition{})
	for i := range f.tenants {
		form := map[string]string{"of": fmt.Sprint(i)}
		if i >= f.light {
			form["turn"], form["pad"] = fmt.Sprint(f.turn), strings.Repeat("x", f.form)
		}
		out = append(out, ledger.Recipient{
			Source: types.UID(fmt.Sprintf("tenant-%02d", i)), Rank: i + 1,
			Profile: v1alpha1.Profile{SpecVersion: "0.5", Source: "https://c", Extensions: form},
		})
	}
	return out
}

// A tenant fills its half of the journal with new rendering profiles at each event.
func TestTenantsProfilesTakeNothingFromTheOperator(t *testing.T) {
	s := store.New()
	f := &flood{tenants: 31, form: 7800}
	l := ledger.New(s, f, &counts{})
	for ; f.turn < 8; f.turn++ {
		must(t, add(l, lifecycle.Upgraded, strings.Repeat("x", 10<<10)))
		if size := written(t, s); size > maxWritten {
			t.Fatalf("the object has %d bytes", size)
		}
	}
	if got := sequences(l.Pending(key, "operator")); got != "1 2 3 4 5 6 7 8" {
		t.Errorf("pending for the operator: %q", got)
	}
	if got := sequences(l.Pending(key, "tenant-00")); got == "" || !strings.HasSuffix(got, "8") {
		t.Errorf("pending for the first tenant: %q", got)
	}
}

// A dead sink of the operator takes no room from tenants that keep up. Many dead sinks of a
// tenant leave the operator half of the journal.
func TestOperatorAndTenantsShareTheJournal(t *testing.T) {
	s := store.New()
	f := &flood{tenants: 31}
	l := ledger.New(s, f, &counts{})
	for range 30 {
		must(t, add(l, lifecycle.Upgraded, strings.Repeat("x", 40<<10)))
		for _, o := range slices.Backward(l.Pending(key, "tenant-00")) {
			if o.Transition.Sequence > 3 {
				acknowledge(l, o.Name, "tenant-00", o.Transition.Sequence-3)
				break
			}
		}
	}
	healthy := strings.Fields(sequences(l.Pending(key, "tenant-00")))
	if got := strings.Join(healthy, " "); got != "28 29 30" {
		t.Errorf("pending for the source that keeps up: %q", got)
	}
	if got := strings.Fields(sequences(l.Pending(key, "operator"))); len(got) < 6 || got[len(got)-1] != "30" {
		t.Errorf("pending for the operator: %q", got)
	}
}

// A source whose form changes before each event uses more room than the others, so it loses
// events first.
func TestLightSourceLosesNothingToHeavyOnes(t *testing.T) {
	s := store.New()
	f := &flood{tenants: 31, form: 7800, light: 1}
	l := ledger.New(s, f, &counts{})
	for ; f.turn < 20; f.turn++ {
		must(t, add(l, lifecycle.Upgraded, strings.Repeat("x", 1<<10)))
		if size := written(t, s); size > maxWritten {
			t.Fatalf("the object has %d bytes", size)
		}
	}
	var all []string
	for i := range f.turn {
		all = append(all, fmt.Sprint(i+1))
	}
	for _, source := range []types.UID{"operator", "tenant-00"} {
		if got := sequences(l.Pending(key, source)); got != strings.Join(all, " ") {
			t.Errorf("pending for %s: %q", source, got)
		}
	}
	if got := sequences(l.Pending(key, "tenant-30")); !strings.HasSuffix(got, "20") {
		t.Errorf("pending for a heavy source: %q", got)
	}
}
