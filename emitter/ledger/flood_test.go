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

// flood is the operator's source and those of a tenant, who edits the form of each
// before each event.
type flood struct {
	everyone
	tenants, turn, form int
	// light are the first tenants, whose forms are small and stay.
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

// A tenant may fill half of a journal with forms at each event, within all bounds.
func TestATenantsFormsTakeNothingFromTheOperator(t *testing.T) {
	s := store.New()
	f := &flood{tenants: 31, form: 7800}
	l := ledger.New(s, f, &counts{})
	for ; f.turn < 8; f.turn++ {
		must(t, add(l, lifecycle.Upgraded, strings.Repeat("x", 10<<10)))
		if size := written(t, s); size > maxWritten {
			t.Fatalf("%d bytes", size)
		}
	}
	if got := sequences(l.Pending(key, "operator")); got != "1 2 3 4 5 6 7 8" {
		t.Errorf("the operator is owed %q", got)
	}
	if got := sequences(l.Pending(key, "tenant-00")); got == "" || !strings.HasSuffix(got, "8") {
		t.Errorf("the first tenant is owed %q", got)
	}
}

// A sink of the operator that is dead takes nothing from tenants who keep up, and many dead
// sinks of a tenant leave the operator half of the journal.
func TestEachHasHalfOfAJournal(t *testing.T) {
	s := store.New()
	f := &flood{tenants: 31}
	l := ledger.New(s, f, &counts{})
	for range 30 {
		must(t, add(l, lifecycle.Upgraded, strings.Repeat("x", 40<<10)))
		for _, o := range slices.Backward(l.Pending(key, "tenant-00")) {
			if o.Transition.Sequence > 3 {
				l.Acknowledge(o.Name, "tenant-00", o.Transition.Sequence-3)
				break
			}
		}
	}
	healthy := strings.Fields(sequences(l.Pending(key, "tenant-00")))
	if got := strings.Join(healthy, " "); got != "28 29 30" {
		t.Errorf("who keeps up is owed %q", got)
	}
	if got := strings.Fields(sequences(l.Pending(key, "operator"))); len(got) < 6 || got[len(got)-1] != "30" {
		t.Errorf("the operator is owed %q", got)
	}
}

// A source whose form is edited before each event weighs more than its neighbours, and
// gives way before them.
func TestALightSourceKeepsItsRoomAmongHeavyOnes(t *testing.T) {
	s := store.New()
	f := &flood{tenants: 31, form: 7800, light: 1}
	l := ledger.New(s, f, &counts{})
	for ; f.turn < 20; f.turn++ {
		must(t, add(l, lifecycle.Upgraded, strings.Repeat("x", 1<<10)))
		if size := written(t, s); size > maxWritten {
			t.Fatalf("%d bytes", size)
		}
	}
	var all []string
	for i := range f.turn {
		all = append(all, fmt.Sprint(i+1))
	}
	for _, source := range []types.UID{"operator", "tenant-00"} {
		if got := sequences(l.Pending(key, source)); got != strings.Join(all, " ") {
			t.Errorf("%s is owed %q", source, got)
		}
	}
	if got := sequences(l.Pending(key, "tenant-30")); !strings.HasSuffix(got, "20") {
		t.Errorf("a heavy one is owed %q", got)
	}
}
