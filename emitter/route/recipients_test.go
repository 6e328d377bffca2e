// SPDX-License-Identifier: Apache-2.0

package route

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// What the router decides about a source.
const (
	chosen    = "chosen"
	excluded  = "excluded"
	undecided = "undecided"
	invalid   = "invalid"
)

func TestRecipients(t *testing.T) {
	everything := &metav1.LabelSelector{}
	prod := &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "prod"}}
	for name, c := range map[string]struct {
		change func(*v1alpha1.CDEventSource)
		want   string
	}{
		"own namespace":                 {func(*v1alpha1.CDEventSource) {}, chosen},
		"another namespace":             {func(s *v1alpha1.CDEventSource) { s.Namespace = "other" }, excluded},
		"selector in another namespace": {func(s *v1alpha1.CDEventSource) { s.Namespace = "other"; s.Spec.NamespaceSelector = everything }, excluded},
		"selector in its own namespace": {func(s *v1alpha1.CDEventSource) { s.Spec.NamespaceSelector = everything }, excluded},
		"system, no selector":           {func(s *v1alpha1.CDEventSource) { s.Namespace = "system" }, excluded},
		"system, all namespaces":        {func(s *v1alpha1.CDEventSource) { s.Namespace = "system"; s.Spec.NamespaceSelector = everything }, chosen},
		"system, matching":              {func(s *v1alpha1.CDEventSource) { s.Namespace = "system"; s.Spec.NamespaceSelector = prod }, chosen},
		"label matches": {func(s *v1alpha1.CDEventSource) {
			s.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cart"}}
		}, chosen},
		"label differs": {func(s *v1alpha1.CDEventSource) {
			s.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
		}, excluded},
		"not a selector": {func(s *v1alpha1.CDEventSource) {
			s.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
		}, invalid},
		"being deleted":           {func(s *v1alpha1.CDEventSource) { now := metav1.Now(); s.DeletionTimestamp = &now }, excluded},
		"prefix passes":           {filter(v1alpha1.Filter{Prefix: map[string]string{"type": "dev.cdevents.service."}}), chosen},
		"prefix does not":         {filter(v1alpha1.Filter{Prefix: map[string]string{"type": "dev.cdeventsx."}}), excluded},
		"exact":                   {filter(v1alpha1.Filter{Exact: map[string]string{"subject": "service/shop/cart"}}), chosen},
		"not":                     {filter(v1alpha1.Filter{Not: &v1alpha1.Filter{Suffix: map[string]string{"subject": "cart"}}}), excluded},
		"any":                     {filter(v1alpha1.Filter{Any: []v1alpha1.Filter{{Exact: map[string]string{"subject": "x"}}, {Suffix: map[string]string{"subject": "cart"}}}}), chosen},
		"two filters, one fails":  {filter(v1alpha1.Filter{CESQL: "TRUE"}, v1alpha1.Filter{CESQL: "subject = 'x'"}), excluded},
		"cesql":                   {filter(v1alpha1.Filter{CESQL: "type LIKE 'dev.cdevents.%'"}), chosen},
		"cesql without a boolean": {filter(v1alpha1.Filter{CESQL: "1 + 1"}), undecided},
		"invalid cesql":           {filter(v1alpha1.Filter{CESQL: "this is ( not"}), undecided},
		"empty filter":            {filter(v1alpha1.Filter{}), undecided},
		"empty filter, nested":    {filter(v1alpha1.Filter{Any: []v1alpha1.Filter{{}}}), undecided},
		"unknown CDEvents version": {func(s *v1alpha1.CDEventSource) {
			filter(v1alpha1.Filter{CESQL: "TRUE"})(s)
			s.Spec.CDEvents = &v1alpha1.CDEventsSpec{Version: "9"}
		}, undecided},
	} {
		t.Run(name, func(t *testing.T) {
			s := sourceNamed("all")
			c.change(s)
			got := router(s).Recipients(subject, ledger.Labels{Own: map[string]string{"app": "cart"}, Namespace: labelled}, lifecycle.Transition{Sequence: 1, Type: lifecycle.Deployed, Time: noon})
			is := excluded
			switch {
			case len(got) == 1 && got[0].Refused != nil:
				is = invalid
			case len(got) == 1 && got[0].Undecided:
				is = undecided
			case len(got) == 1:
				is = chosen
			}
			if is != c.want {
				t.Errorf("got %s (%+v), want %s", is, got, c.want)
			}
		})
	}
}

// Cluster-scoped objects concern all teams. Their namespace has no name and no labels, and the API server is not asked
// about it.
func TestOnlyTheOperatorSeesClusterScopedObjects(t *testing.T) {
	none, prod := &metav1.LabelSelector{}, &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "prod"}}
	notProd := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "stage", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"prod"}}}}
	scoped := v1alpha1.CDEventSubjectSpec{APIVersion: "platform.example.com/v1", Kind: "XCluster", Name: "prod", UID: "u"}
	for name, c := range map[string]struct {
		namespace string
		selector  *metav1.LabelSelector
		want      bool
	}{
		"tenant":                               {"shop", nil, false},
		"tenant, with a selector":              {"shop", none, false},
		"operator":                             {"system", nil, true},
		"operator, all namespaces":             {"system", none, true},
		"operator, namespaces with a label":    {"system", prod, false},
		"operator, namespaces without a label": {"system", notProd, true},
	} {
		s := sourceNamed("all")
		s.Namespace, s.Spec.NamespaceSelector, s.Spec.Replay = c.namespace, c.selector, v1alpha1.ReplayCurrent
		r := router(s)
		r.Namespace = func(name string) (map[string]string, bool, error) {
			return nil, false, fmt.Errorf("asked for namespace %q", name)
		}
		labels, exists, err := r.NamespaceLabels("")
		if len(labels) > 0 || !exists || err != nil {
			t.Errorf("labels %v, exists %v, %v", labels, exists, err)
		}
		created := lifecycle.Transition{Sequence: 1, Type: lifecycle.EnvironmentCreated, Time: noon, Environment: &lifecycle.EnvironmentDetails{}}
		if got := r.Recipients(scoped, ledger.Labels{Namespace: labels}, created); (len(got) == 1) != c.want {
			t.Errorf("%s: %+v", name, got)
		}
		if got := r.Replays(scoped, nil, func() ledger.Labels { return ledger.Labels{} }); (len(got) == 1) != c.want {
			t.Errorf("%s: replays for %v", name, got)
		}
	}
}

func filter(f ...v1alpha1.Filter) func(*v1alpha1.CDEventSource) {
	return func(s *v1alpha1.CDEventSource) { s.Spec.Filters = f }
}

func router(s *v1alpha1.CDEventSource) *Router {
	return &Router{
		Sources:         listed{s},
		Namespace:       func(string) (map[string]string, bool, error) { return labelled, true, nil },
		SystemNamespace: "system",
		Settings:        operator{ID: "default", Source: "https://env"},
		Render:          cdevents.Render,
		Filters:         NewFilters(),
	}
}

var (
	subject = v1alpha1.CDEventSubjectSpec{APIVersion: "serving.knative.dev/v1", Kind: "Service", Namespace: "shop", Name: "cart", UID: types.UID("u")}
	noon    = metav1.Date(2026, 5, 4, 12, 0, 0, 0, metav1.Now().UTC().Location()).Time
)

var labelled = map[string]string{"stage": "prod", EnvironmentLabel: "blue"}

func TestReplays(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.CDEventSource)
		want   int
	}{
		"unset":                    {func(*v1alpha1.CDEventSource) {}, 0},
		"None":                     {func(s *v1alpha1.CDEventSource) { s.Spec.Replay = v1alpha1.ReplayNone }, 0},
		"Current":                  {func(s *v1alpha1.CDEventSource) { s.Spec.Replay = v1alpha1.ReplayCurrent }, 1},
		"Current, other namespace": {func(s *v1alpha1.CDEventSource) { s.Spec.Replay, s.Namespace = v1alpha1.ReplayCurrent, "other" }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := sourceNamed("all")
			c.change(s)
			asked := false
			got := router(s).Replays(subject, nil, func() ledger.Labels { asked = true; return ledger.Labels{} })
			if len(got) != c.want || asked != (c.want > 0) {
				t.Errorf("%v, labels were looked up: %v", got, asked)
			}
		})
	}
}

// The journaled labels of the namespace may be out of date.
func TestReplaysUseThePresentNamespaceLabels(t *testing.T) {
	s := sourceNamed("all")
	s.Namespace, s.Spec.Replay = "system", v1alpha1.ReplayCurrent
	s.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "prod"}}
	prod, dev := map[string]string{"stage": "prod"}, map[string]string{"stage": "dev"}
	for name, c := range map[string]struct {
		journaled, today map[string]string
		gone             bool
		fails            error
		want             int
	}{
		"label added":       {nil, prod, false, nil, 1},
		"label changed":     {prod, dev, false, nil, 0},
		"namespace deleted": {prod, nil, true, nil, 1},
		"lookup fails":      {prod, nil, false, errors.New("no answer"), 0},
	} {
		r := router(s)
		r.Namespace = func(string) (map[string]string, bool, error) { return c.today, !c.gone, c.fails }
		if got := r.Replays(subject, nil, func() ledger.Labels { return ledger.Labels{Namespace: c.journaled} }); len(got) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestProfile(t *testing.T) {
	s := sourceNamed("all")
	r := router(s)
	// The version of the rendering is journaled, so that an upgrade does not change the event.
	r.Rendering = 7
	p := r.profile(s, labelled)
	if p.Rendering != 7 {
		t.Errorf("rendering version %d is journaled, want 7", p.Rendering)
	}
	if p.Environment.ID != "blue" || p.Source != "https://cluster.example.com" || p.SpecVersion != "0.5" || p.Extensions != nil {
		t.Errorf("from the namespace's label: %+v", p)
	}
	s.Spec.Environment = &v1alpha1.Environment{ID: "mine"}
	s.Spec.CDEvents = &v1alpha1.CDEventsSpec{Version: "0.4"}
	s.Spec.CloudEventOverrides = &duckv1.CloudEventOverrides{Extensions: map[string]string{"team": "shop"}}
	p = r.profile(s, labelled)
	if p.Environment != *s.Spec.Environment || p.SpecVersion != "0.4" || p.Extensions["team"] != "shop" {
		t.Errorf("from the source: %+v", p)
	}
	// The ledger has no credentials, whoever wrote them.
	s.Spec.Environment = &v1alpha1.Environment{ID: "https://s3cret@a.example", Source: "https://a.example/?token=s3cret"}
	s.Spec.CloudEventOverrides.Extensions["repository"] = "https://ci:s3cret@git.example.com"
	p = r.profile(s, labelled)
	if said := fmt.Sprint(p); strings.Contains(said, "s3cret") || p.Extensions["team"] != "shop" || p.Extensions["repository"] != "https://git.example.com" {
		t.Errorf("with credentials: %s", said)
	}
	if s.Spec.CloudEventOverrides.Extensions["repository"] != "https://ci:s3cret@git.example.com" {
		t.Error("the source has changed")
	}
	s.Spec.Environment = nil
	if p = r.profile(s, nil); p.Environment.Source != "https://env" {
		t.Errorf("from the configuration: %+v", p)
	}
}

func TestFiltersFollowTheSource(t *testing.T) {
	f := NewFilters()
	s := sourceNamed("all")
	s.Spec.Filters = []v1alpha1.Filter{{CESQL: "FALSE"}}
	if ok, err := f.Passes(s, probe()); ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	s.Spec.Filters, s.Generation = nil, 2
	if ok, err := f.Passes(s, probe()); !ok || err != nil {
		t.Errorf("after the change: %v, %v", ok, err)
	}
	f.Forget(s.UID)
}
