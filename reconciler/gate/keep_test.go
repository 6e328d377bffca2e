// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/traffic"
	"github.com/knative-cdevents/knative-cdevents/test/stage"
)

// finished returns the names of what is kept of finished runs.
func (h *house) finished() (names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, path := range slices.Sorted(maps.Keys(h.objects)) {
		if name, is := strings.CutPrefix(path, recordPath); is && meta(h.objects[path])["labels"] != nil {
			names = append(names, name)
		}
	}
	return names
}

// fail lets a run of the stage fail.
func (h *house) fail(g *Gate) {
	h.t.Helper()
	h.look(g)
	h.look(g)
	h.Serve(stage.Canary, 60, 5)
	h.look(g)
	h.Serve(stage.Canary, 10, 25)
	h.look(g)
}

// What a run measured stays when it has ended, and its record goes.
func TestFinishedRunIsKept(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house, path, record string) {
		g := h.process()
		h.fail(g)
		h.says(path, `"verdict":"Fail"`)
		h.collect(g)
		h.kept(record, false)
		names := h.finished()
		if len(names) != 1 || !strings.HasPrefix(recordPath+names[0], record+"-") {
			t.Fatalf("%q is kept", names)
		}
		kept := h.keptRun(names[0])
		run := kept.Status.Run
		if run.Verdict != "Fail" || run.Canary.Name != "cart-00002" || run.Baseline == nil || run.CompletionTime == nil || run.Report != nil || run.Spec != nil {
			t.Errorf("%+v", run)
		}
		if v1alpha1.RunOwner(kept) != kept.Spec || kept.Labels[v1alpha1.FinishedRunLabel] != "true" || kept.Annotations[v1alpha1.RunServiceAnnotation] != "cart" {
			t.Errorf("%+v", kept.ObjectMeta)
		}
		measured, err := traffic.Unpack(run.Evidence.Raw)
		if err != nil {
			t.Fatal(err)
		}
		requests, errors := 0.0, 0.0
		for _, w := range measured.Windows {
			requests, errors = requests+w.Canary.Handled.Requests, errors+w.Canary.Handled.Errors
		}
		if requests != 100 || errors != 30 || !measured.Sharded || measured.End() != 18*time.Second {
			t.Errorf("%v of %v failed, until %s: %+v", errors, requests, measured.End(), measured.Windows)
		}
	})
}

func (h *house) keptRun(name string) *v1alpha1.CanaryGateRun {
	h.t.Helper()
	kept := &v1alpha1.CanaryGateRun{}
	if err := json.Unmarshal([]byte(h.get(recordPath+name)), kept); err != nil {
		h.t.Fatal(err)
	}
	return kept
}

// A process that dies before it has kept a run leaves that to the next one.
func TestKeepingIsTriedAgain(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house, path, record string) {
		h.look(h.process())
		h.look(h.process())
		h.refusing(func(asked string) bool {
			return strings.HasPrefix(asked, "POST "+strings.TrimSuffix(recordPath, "/")) || strings.HasPrefix(asked, "DELETE ")
		})
		h.fail(h.process())
		h.says(path, `"verdict":"Fail"`)
		if names := h.finished(); len(names) != 0 {
			t.Fatalf("%q is kept", names)
		}
		h.refusing(nil)
		g := h.process()
		h.collect(g)
		h.collect(g)
		h.kept(record, false)
		if names := h.finished(); len(names) != 1 {
			t.Errorf("%q is kept", names)
		}
	})
}

// What was pruned does not come back as long as the record of the run stays.
func TestPrunedRunStaysAway(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house, _, record string) {
		g := h.process()
		h.fail(g)
		names := h.finished()
		if len(names) != 1 {
			t.Fatalf("%q is kept", names)
		}
		h.remove(recordPath + names[0])
		h.kept(record, true)
		h.collect(g)
		h.kept(record, false)
		if names := h.finished(); len(names) != 0 {
			t.Errorf("%q is kept", names)
		}
	})
}

// A quota or a policy that refuses for good what is kept holds up neither the next run nor the records of others.
func TestKeepingIsRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house, path, record string) {
		h.full = true
		g := h.process()
		h.fail(g)
		h.look(g)
		h.says(path, `"verdict":"Fail"`)
		h.collect(g)
		h.kept(record, false)
		if names := h.finished(); len(names) != 0 {
			t.Errorf("%q is kept", names)
		}
	})
}

// A retry replaces the record of the attempt before it, and does not lose what that measured. The runs of CustomRuns
// that name a gate are the gate's.
func TestAttemptsAreKept(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.put(t, gatePath, strings.Replace(watching, `"watch":true,`, "", 1))
	h.put(t, runPath, `{"apiVersion":"tekton.dev/v1beta1","kind":"CustomRun","metadata":{"name":"cart","namespace":"shop","uid":"u1"},"spec":
		{"retries":1,"timeout":"40s","customRef":{"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"CanaryGate","name":"cart"}}}`)
	g := h.process()
	for range 30 {
		h.Serve(stage.Canary, 1, 0)
		h.look(g)
	}
	if !h.customRun().Done() {
		t.Fatal("it goes on")
	}
	if names := h.finished(); !slices.Equal(names, []string{"customrun-u1-0", "customrun-u1-1"}) {
		t.Fatalf("%q is kept", names)
	}
	if kept := h.keptRun("customrun-u1-0"); kept.Spec.Kind != ofGate || kept.Spec.UID != "g1" || kept.Spec.Name != "cart" {
		t.Errorf("%+v", kept.Spec)
	}
}

// Times without requests are no part of any window, and nothing is written for them.
func TestQuietTimes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house, _, record string) {
		g := h.process()
		h.look(g)
		h.look(g)
		h.Serve(stage.Canary, 10, 0)
		h.look(g)
		before := h.get(record)
		for range 10 {
			h.look(g)
		}
		if is := h.get(record); is != before {
			t.Errorf("before\n%s\nafter\n%s", before, is)
		}
		h.Serve(stage.Canary, 10, 0)
		h.look(g)
		h.at = h.at.Add(time.Minute) // the next process does not know whether anything happened
		h.Serve(stage.Canary, 0, 90)
		g = h.process()
		h.look(g)
		h.look(g)
		measured, err := traffic.Unpack(h.keptRun(h.finished()[0]).Status.Run.Evidence.Raw)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range measured.Windows {
			got = append(got, fmt.Sprintf("%s to %s: %v", w.From, w.To, w.Canary.Handled.Requests))
		}
		if want := []string{"0s to 6s: 0", "6s to 12s: 10", "1m12s to 1m18s: 10", "1m18s to 2m24s: 90"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// Of each gate, as many runs are kept as it says, for four weeks, and none after its end.
func TestPrune(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.put(t, gatePath, watching)
	add := func(name, kind, owner, uid, service string, age time.Duration) {
		t.Helper()
		r := &v1alpha1.CanaryGateRun{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, UID: "uid", Labels: map[string]string{v1alpha1.FinishedRunLabel: "true"}, CreationTimestamp: metav1.NewTime(h.at.Add(-age)),
				Annotations: map[string]string{v1alpha1.RunServiceAnnotation: service},
			},
			Spec: v1alpha1.CanaryGateRunSpec{Kind: kind, Namespace: "shop", Name: owner, UID: types.UID(uid)},
		}
		r.AnnotateOwner()
		raw, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		h.put(t, recordPath+name, string(raw))
	}
	for i := range 12 {
		age := time.Duration(i) * time.Hour
		add(fmt.Sprintf("gate-%02d", i), ofGate, "cart", "g1", "cart", age)
		add(fmt.Sprintf("embedded-%02d", i), ofCustomRun, fmt.Sprint("run", i), fmt.Sprint("u", i), "cart", age)
	}
	add("gone", ofGate, "other", "g7", "cart", 0)
	add("again", ofGate, "cart", "g0", "cart", 0)
	add("elsewhere", ofGate, "cart", "g0", "books", 0)
	g := h.process()
	prune := func(want ...string) {
		t.Helper()
		h.hear(g)
		if err := g.prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		if names := h.finished(); !slices.Equal(names, want) {
			t.Errorf("%q is kept, want %q", names, want)
		}
	}
	numbered := func(prefix string, n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("%s-%02d", prefix, i))
		}
		return out
	}
	prune(slices.Concat([]string{"elsewhere"}, numbered("embedded", 10), numbered("gate", 10))...)
	h.put(t, gatePath, strings.Replace(watching, `"watch":true`, `"watch":true,"historyLimit":2`, 1))
	prune(slices.Concat([]string{"elsewhere"}, numbered("embedded", 10), numbered("gate", 2))...)
	h.at = h.at.Add(keepFor - time.Hour/2)
	prune("elsewhere", "embedded-00", "gate-00")
	h.at = h.at.Add(time.Hour)
	prune("elsewhere")
}

// A gate without a history keeps nothing.
func TestNoHistory(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.put(t, gatePath, strings.Replace(watching, `"watch":true`, `"watch":true,"historyLimit":0`, 1))
	g := h.process()
	h.fail(g)
	h.says(gatePath, `"verdict":"Fail"`)
	h.collect(g)
	h.kept(gateRecord, false)
	if names := h.finished(); len(names) != 0 {
		t.Errorf("%q is kept", names)
	}
}

// What exceeds the limit of a gate goes with the next resync after the run that was kept.
func TestPruneAfterARun(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.put(t, gatePath, strings.Replace(watching, `"watch":true`, `"watch":true,"historyLimit":1`, 1))
	h.Split(0)
	g := h.process()
	for _, percent := range []int64{10, 20} {
		h.Split(percent)
		for range 4 {
			h.Serve(stage.Canary, 0, 30)
			h.look(g)
		}
	}
	names := h.finished()
	if len(names) != 2 {
		t.Fatalf("%q is kept", names)
	}
	for _, name := range names {
		h.put(t, recordPath+name, strings.Replace(h.get(recordPath+name), `"metadata":{`,
			`"metadata":{"creationTimestamp":"`+h.at.Format(time.RFC3339)+`",`, 1))
	}
	if err := g.tend(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if names := h.finished(); len(names) != 1 {
		t.Errorf("%q is kept", names)
	}
}
