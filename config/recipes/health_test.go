// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	lua "github.com/yuin/gopher-lua"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"knative.dev/pkg/apis"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/yaml"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

func newSource(change func(*v1alpha1.CDEventSource)) func() any {
	return func() any {
		s := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "releases", Generation: 3}}
		s.APIVersion, s.Kind = v1alpha1.SchemeGroupVersion.String(), v1alpha1.SourceKind.Kind
		change(s)
		return s
	}
}

// readySource has the conditions that the controller writes for a source that works.
func readySource(change func(*v1alpha1.CDEventSource, apis.ConditionManager)) func() any {
	return newSource(func(s *v1alpha1.CDEventSource) {
		s.Status.ObservedGeneration = 3
		m := s.GetConditionSet().Manage(&s.Status)
		for _, c := range []apis.ConditionType{
			v1alpha1.SourceConditionSinkProvided, v1alpha1.SourceConditionDeadLetterSinkResolved, v1alpha1.SourceConditionValid,
			v1alpha1.SourceConditionCredentialsReady, v1alpha1.SourceConditionDelivering,
		} {
			m.MarkTrue(c)
		}
		change(s, m)
	})
}

func newGate(reason string, ready bool, latest verdict.Verdict) func() any {
	return func() any {
		g := &v1alpha1.CanaryGate{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", Generation: 1}}
		g.APIVersion, g.Kind = v1alpha1.SchemeGroupVersion.String(), v1alpha1.GateKind.Kind
		g.Status.ObservedGeneration = 1
		m := apis.NewLivingConditionSet(v1alpha1.GateValid, v1alpha1.GateServiceFound, v1alpha1.GateMeasured).Manage(&g.Status)
		m.MarkTrue(v1alpha1.GateValid)
		m.MarkTrue(v1alpha1.GateServiceFound)
		m.MarkTrue(v1alpha1.GateMeasured)
		if !ready {
			m.MarkFalse(v1alpha1.GateMeasured, reason, "because")
		}
		if latest != "" {
			g.Status.Latest = &v1alpha1.GateLatest{GateRunSummary: v1alpha1.GateRunSummary{Verdict: latest}, Message: "it said"}
		}
		return g
	}
}

// states are objects as the controller writes them, and what each program makes of them.
var states = map[string]struct {
	object func() any
	// argo is the health, and what its message has.
	argo, says string
	kstatus    status.Status
	// flux is the status by the expressions; empty if they cannot be evaluated yet, and Flux waits.
	flux status.Status
}{
	"a new source":     {newSource(func(*v1alpha1.CDEventSource) {}), "Progressing", "has not looked", status.CurrentStatus, ""},
	"a changed source": {readySource(func(s *v1alpha1.CDEventSource, _ apis.ConditionManager) { s.Generation = 4 }), "Progressing", "has not looked", status.InProgressStatus, status.InProgressStatus},
	"a ready source":   {readySource(func(*v1alpha1.CDEventSource, apis.ConditionManager) {}), "Healthy", "", status.CurrentStatus, status.CurrentStatus},
	"no sink": {readySource(func(_ *v1alpha1.CDEventSource, m apis.ConditionManager) {
		m.MarkFalse(v1alpha1.SourceConditionSinkProvided, "SinkNotFound", "there is no Service")
	}), "Degraded", "SinkNotFound: there is no Service", status.InProgressStatus, status.FailedStatus},
	"not known yet": {readySource(func(_ *v1alpha1.CDEventSource, m apis.ConditionManager) {
		m.MarkUnknown(v1alpha1.SourceConditionSinkProvided, "LookupFailed", "wait a moment")
	}), "Progressing", "wait a moment", status.InProgressStatus, status.InProgressStatus},
	"a sink that is down": {readySource(func(_ *v1alpha1.CDEventSource, m apis.ConditionManager) {
		m.MarkFalse(v1alpha1.SourceConditionDelivering, "SinkFails", "it answered 503")
	}), "Degraded", "SinkFails: it answered 503", status.CurrentStatus, status.CurrentStatus},
	"a ready gate":              {newGate("", true, ""), "Healthy", "", status.CurrentStatus, status.CurrentStatus},
	"a gate before its Service": {newGate("ServiceNotFound", false, ""), "Progressing", "because", status.InProgressStatus, status.InProgressStatus},
	"a gate without metrics":    {newGate("EntryMetricsUnavailable", false, ""), "Degraded", "EntryMetricsUnavailable", status.InProgressStatus, status.FailedStatus},
	"a gate that judges":        {newGate("", true, verdict.Running), "Progressing", "Running: it said", status.CurrentStatus, status.CurrentStatus},
	"a gate that failed":        {newGate("", true, verdict.Fail), "Degraded", "Fail: it said", status.CurrentStatus, status.CurrentStatus},
	"a suspended gate": {func() any {
		g, _ := newGate("", true, verdict.Pass)().(*v1alpha1.CanaryGate)
		g.Spec.Suspend = true
		return g
	}, "Suspended", "Pass: it said", status.CurrentStatus, status.CurrentStatus},
	"a gate that passed": {newGate("", true, verdict.Pass), "Healthy", "Pass: it said", status.CurrentStatus, status.CurrentStatus},
}

// unstructuredOf returns an object as it is read from the API server.
func unstructuredOf(t *testing.T, of any) *unstructured.Unstructured {
	t.Helper()
	raw, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

// Argo CD runs the scripts in gopher-lua, with the object as the global obj.
func TestArgoCD(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("argocd-cm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c struct{ Data map[string]string }
	if err := yaml.UnmarshalStrict(content, &c); err != nil {
		t.Fatal(err)
	}
	for name, s := range states {
		u := unstructuredOf(t, s.object())
		script, has := c.Data["resource.customizations.health."+v1alpha1.GroupName+"_"+u.GetKind()]
		if !has {
			t.Fatalf("no script for %s", u.GetKind())
		}
		state := lua.NewState(lua.Options{SkipOpenLibs: true})
		for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenTable, lua.OpenString} {
			open(state)
		}
		state.SetGlobal("obj", toLua(state, u.Object))
		if err := state.DoString(script); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		health, is := state.Get(-1).(*lua.LTable)
		if !is {
			t.Fatalf("%s: it returned %v", name, state.Get(-1))
		}
		if got, message := health.RawGetString("status").String(), health.RawGetString("message").String(); got != s.argo || !strings.Contains(message, s.says) {
			t.Errorf("%s: %s %q, want %s %q", name, got, message, s.argo, s.says)
		}
		state.Close()
	}
}

func toLua(state *lua.LState, of any) lua.LValue {
	switch v := of.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, value := range v {
			table.RawSetString(key, toLua(state, value))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, value := range v {
			table.Append(toLua(state, value))
		}
		return table
	case string:
		return lua.LString(v)
	case bool:
		return lua.LBool(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	}
	return lua.LNil
}

// kubectl's and Flux's kstatus read the conditions without being told. A new object counts as current, and none as
// failed.
func TestKstatus(t *testing.T) {
	t.Parallel()
	for name, s := range states {
		got, err := status.Compute(unstructuredOf(t, s.object()))
		if err != nil || got.Status != s.kstatus {
			t.Errorf("%s: %+v, %v; want %s", name, got, err, s.kstatus)
		}
	}
}

// Flux evaluates the expressions on the fields of the object, in this order, after it has compared the generations.
func TestFluxHealthChecks(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("flux-kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var k struct {
		Spec struct {
			HealthCheckExprs []struct{ APIVersion, Kind, Failed, Current string }
		}
	}
	if err := yaml.Unmarshal(content, &k); err != nil {
		t.Fatal(err)
	}
	env, err := cel.NewEnv()
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range states {
		u := unstructuredOf(t, s.object())
		found := false
		for _, e := range k.Spec.HealthCheckExprs {
			if e.APIVersion != u.GetAPIVersion() || e.Kind != u.GetKind() {
				continue
			}
			found = true
			if got := fluxStatus(t, env, u, e.Failed, e.Current); got != s.flux {
				t.Errorf("%s: %q, want %q", name, got, s.flux)
			}
		}
		if !found {
			t.Errorf("no expressions for %s", u.GetKind())
		}
	}
}

func fluxStatus(t *testing.T, env *cel.Env, u *unstructured.Unstructured, failed, current string) status.Status {
	t.Helper()
	seen, ok, err := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	if err != nil {
		t.Fatal(err)
	}
	if ok && seen != u.GetGeneration() {
		return status.InProgressStatus
	}
	for _, e := range []struct {
		text string
		is   status.Status
	}{{failed, status.FailedStatus}, {current, status.CurrentStatus}} {
		parsed, issues := env.Parse(e.text)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		program, err := env.Program(parsed)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := program.Eval(u.Object)
		if err != nil {
			return "" // it asks again
		}
		if got.Value() == true {
			return e.is
		}
	}
	return status.InProgressStatus
}
