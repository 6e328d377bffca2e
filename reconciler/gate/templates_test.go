// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/stage"
)

const templatePath = "/apis/knative-cdevents.dev/v1alpha1/clustercanarygatetemplates/"

// referring are both kinds of runs, by a template that the API server does not have yet.
func referring(t *testing.T, f func(t *testing.T, h *house, path, record string)) {
	t.Helper()
	each(t, func(t *testing.T, h *house, path, record string) {
		t.Helper()
		object := kinds["CanaryGate"].object
		if path == runPath {
			object = kinds["CustomRun"].object
		}
		h.put(t, path, strings.Replace(object, `"service":"cart"`, `"service":"cart","templateRef":{"name":"strict"}`, 1))
		f(t, h, path, record)
	})
}

// state has the template with this policy.
func (h *house) state(policy string) {
	h.put(h.t, templatePath+"strict", `{"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"ClusterCanaryGateTemplate",
		"metadata":{"name":"strict","generation":4},"spec":{`+policy+`}}`)
}

const needs40 = `"minimum":{"canaryRequests":40,"baselineRequests":40}`

// A run judges by the template as it was when the run began, whatever becomes of it.
func TestRunKeepsTheTemplateThatItBeganWith(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]func(*house){
		"changed": func(h *house) { h.state(`"minimum":{"canaryRequests":9000},"failOn":["Fail"]`) },
		"invalid": func(h *house) { h.state(`"failOn":["Warn"]`) },
		"removed": func(h *house) { h.remove(templatePath + "strict") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			referring(t, func(_ *testing.T, h *house, path, record string) {
				h.state(needs40)
				g := h.process()
				h.look(g)
				h.look(g)
				h.says(path, `"template":{"generation":4,"groups":["minimum"],"name":"strict","replaced":["minimum"]}`)
				h.says(path, "40 requests of the canary")
				later(h)
				h.Serve(stage.Canary, 30, 0)
				h.look(g)
				h.kept(record, true)
				h.look(h.process()) // the next leader, too
				h.Serve(stage.Canary, 30, 0)
				h.Serve(stage.Baseline, 60, 0)
				h.look(g)
				h.look(h.process())
				h.says(path, `"verdict":"Pass"`)
				h.says(path, `"generation":4`)
			})
		})
	}
}

// A CustomRun that begins takes the gate and its template as they are then, even if the caches are behind.
func TestCustomRunTakesWhatIsNew(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	refers := strings.Replace(watching, `"watch":true,`, `"templateRef":{"name":"strict"},`, 1)
	h.put(t, gatePath, refers)
	h.put(t, runPath, byReference)
	h.state(needs40)
	g := h.process()
	h.hear(g)
	old := &v1alpha1.ClusterCanaryGateTemplate{ObjectMeta: metav1.ObjectMeta{Name: "strict"}}
	if err := g.templates.GetStore().Add(old); err != nil {
		t.Fatal(err)
	}
	h.put(t, gatePath, strings.Replace(refers, `"interval":"5s"`, `"interval":"7s"`, 1))
	h.look(g, true)
	h.says(runPath, `"interval":"7s"`)
	h.says(runPath, `"canaryRequests":40`)
}

// Without the template, or with an invalid one, nothing is judged by another policy.
func TestNoPolicyTakesThePlaceOfATemplate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ policy, reason, says string }{
		"missing":    {"", "TemplateNotFound", `ClusterCanaryGateTemplate \"strict\" does not exist; create it, or name one that does in templateRef`},
		"invalid":    {`"failOn":["Warn"]`, "InvalidTemplate", `ClusterCanaryGateTemplate \"strict\" is not valid: `},
		"unreadable": {`"minimum":{"canaryRequests":"many"}`, "InvalidTemplate", "spec.minimum.canaryRequests"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			referring(t, func(t *testing.T, h *house, path, record string) {
				if c.policy != "" {
					h.state(c.policy)
				}
				g := h.process()
				for range 3 {
					h.look(g)
				}
				h.says(path, `"reason":"`+c.reason+`"`)
				h.says(path, c.says)
				h.kept(record, false)
				if path == runPath {
					if !h.customRun().Done() {
						t.Error("the CustomRun goes on")
					}
					return
				}
				is := h.gate()
				if c := is.Status.GetCondition(v1alpha1.GateTemplateApplied); is.Status.Run != nil || is.Status.Template != nil || !c.IsFalse() {
					t.Errorf("%+v", is.Status)
				}
				h.state(needs40)
				h.look(g)
				h.look(g)
				if is := h.gate(); !is.Status.Run.InProgress() || *is.Status.Run.Effective.Minimum.CanaryRequests != 40 {
					t.Errorf("with the template, no run begins: %+v", is.Status.Run)
				}
			})
		})
	}
}

// Many gates may wait for a template for long, and ask the API server for nothing.
func TestWaitingForATemplateAsksNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.put(t, gatePath, strings.Replace(kinds["CanaryGate"].object, `"service":"cart"`, `"service":"cart","templateRef":{"name":"strict"}`, 1))
	g := h.process()
	g.templates = cache.NewSharedIndexInformer(&cache.ListWatch{
		ListFunc: func(metav1.ListOptions) (runtime.Object, error) {
			return &v1alpha1.ClusterCanaryGateTemplateList{}, nil
		},
		WatchFunc: func(o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil {
				return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil) // it can only list
			}
			return watch.NewFake(), nil
		},
	}, &v1alpha1.ClusterCanaryGateTemplate{}, 0, nil)
	go g.templates.RunWithContext(t.Context())
	if !cache.WaitForCacheSync(t.Context().Done(), g.templates.HasSynced) {
		t.Fatal("the templates are not known")
	}
	for range 5 {
		h.look(g)
	}
	h.says(gatePath, `"reason":"TemplateNotFound"`)
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.Contains(h.asked, "GET "+templatePath+"strict") {
		t.Errorf("%q", h.asked)
	}
}

// If the record of a run is lost, what it began with is, too.
func TestLostRunWithoutItsTemplate(t *testing.T) {
	t.Parallel()
	referring(t, func(_ *testing.T, h *house, path, record string) {
		h.state(needs40)
		g := h.process()
		h.look(g)
		h.look(g)
		h.remove(record)
		h.remove(templatePath + "strict")
		for range 3 {
			h.look(h.process())
		}
		h.says(path, `"verdict":"Error"`)
		h.says(path, `"TemplateNotFound"`)
	})
}

// A template that cannot be read is not a missing one.
func TestTemplateThatCannotBeRead(t *testing.T) {
	t.Parallel()
	referring(t, func(t *testing.T, h *house, path, _ string) {
		h.state(needs40)
		h.refusing(func(asked string) bool { return asked == "GET "+templatePath+"strict" })
		g := h.process()
		h.look(g)
		h.look(g)
		if is := h.get(path); strings.Contains(is, `"status"`) {
			t.Errorf("written: %s", is)
		}
		h.refusing(nil)
		h.look(g)
		h.look(g)
		h.says(path, "40 requests of the canary")
	})
}

// A gate loses the condition with its reference, and an invalid gate has another reason.
func TestConditionOfTheTemplate(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.state(`"schedule":{"interval":"5s","warmup":"0s","minDuration":"1s"}`)
	with := func(spec string) *v1alpha1.CanaryGate {
		t.Helper()
		h.put(t, gatePath, `{"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"CanaryGate","metadata":{"name":"cart","namespace":"shop","uid":"g1","generation":1},
			"spec":{"service":"cart",`+spec+`}}`)
		g := h.process()
		h.look(g)
		return h.gate()
	}
	of := func(g *v1alpha1.CanaryGate) string {
		c := g.Status.GetCondition(v1alpha1.GateTemplateApplied)
		if c == nil {
			return "none"
		}
		return string(c.Status) + " " + c.Reason + " " + c.Message
	}
	const ref = `"templateRef":{"name":"strict"}`
	for spec, want := range map[string]string{
		ref: "True  ",
		ref + `,"schedule":{"interval":"5s","warmup":"0s","minDuration":"1s","timeout":"30m"}`: "True  ",
		ref + `,"schedule":{"timeout":"1h"}`:                                                   `True GroupsReplaced ClusterCanaryGateTemplate "strict" states schedule; of this gate, schedule does not apply`,
		ref + `,"failOn":["Warn"]`:                                                             "Unknown InvalidSpec The gate itself is not valid",
		`"watch":false`:                                                                        "none",
	} {
		if got := of(with(spec)); got != want {
			t.Errorf("%s: %s", spec, got)
		}
	}
	g := h.process()
	with(ref)
	h.look(g)
	raw := strings.Replace(h.get(gatePath), ","+ref, "", 1)
	h.put(t, gatePath, strings.Replace(raw, `"generation":1`, `"generation":2`, 1))
	h.look(g)
	if got := of(h.gate()); got != "none" || h.gate().Status.Template != nil {
		t.Errorf("without the reference: %s", h.get(gatePath))
	}
}
