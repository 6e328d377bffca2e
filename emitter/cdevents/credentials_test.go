// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

const planted = "64_S3cretJobToken"

// plantedIn are texts with a secret in every place that counts.
var plantedIn = []string{
	"https://gitlab-ci-token:" + planted + "@gitlab.example.com/team/shop.git",
	"https://" + planted + "@github.com/acme/shop",
	"git+https://user:a/" + planted + "+b==@git.example.com/shop",
	"ci:" + planted + "@registry.example.com/shop/cart:1",
	"https://ci.example.com/job?run=7&access_token=" + planted,
	"https://bucket.example.com/sbom.json?X-Amz-Date=1&X-Amz-Signature=" + planted,
	"https://account.example.net/log?sv=2024&sig=" + planted + "%3D",
	"https://ci.example.com/#id_token=" + planted,
	"failed: Get \"https://u:" + planted + "@example.com/v2/\": 401; see https://example.com/?private_token=" + planted + ".",
	"pkg:oci/cart?repository_url=https%3A%2F%2Fu%3A" + planted + "%40example.com",
	"RELATION=https://" + planted + "@ci.example.com/7, COMPONENT=u:" + planted + "@example.com/8",
}

// limited are fields whose values Kubernetes or this program limits to characters that no URL consists of.
var limited = []string{"UID", "Name", "Run", "Gate", "Canary", "Baseline", "Type", "Kind", "Verdict", "State", "Mode", "Sequence", "SpecVersion", "Replay", "Source", "Beneath", "APIVersion", "Template", "Digests", "Stateful"}

// plant calls visit once for each text in v, having replaced it.
func plant(v reflect.Value, path, text string, visit func(path string)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			plant(v.Elem(), path, text, visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.IsExported() && (!slices.Contains(limited, f.Name) || f.Type.Kind() != reflect.String) && f.Type.String() != "time.Time" {
				plant(v.Field(i), path+"."+f.Name, text, visit)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			plant(v.Index(i), fmt.Sprintf("%s[%d]", path, i), text, visit)
		}
	case reflect.Map:
		if v.Type().Elem().Kind() != reflect.String {
			return
		}
		for _, key := range v.MapKeys() {
			was := v.MapIndex(key)
			v.SetMapIndex(key, reflect.ValueOf(text).Convert(v.Type().Elem()))
			visit(fmt.Sprintf("%s[%s]", path, key))
			v.SetMapIndex(key, was)
		}
	case reflect.String:
		was := v.String()
		v.SetString(text)
		visit(path)
		v.SetString(was)
	}
}

// full returns a transition of a type with all that it may have.
func full(typ lifecycle.Type) lifecycle.Transition {
	annotations := map[string]string{}
	for _, name := range CarriedAnnotations() {
		annotations[name] = "x"
	}
	revision := func(name string) *lifecycle.Revision {
		return &lifecycle.Revision{
			Name: name, Annotations: maps.Clone(annotations), Misdeclared: "x",
			Images: []lifecycle.Image{{Container: "a", Image: "x", Digest: "x"}, {Container: "b", Image: "x", Digest: "x"}},
		}
	}
	t := lifecycle.Transition{
		Sequence: 2, Time: started, Type: typ, Reason: "x", Revision: revision("cart-00002"), Previous: revision("cart-00001"), URLs: []string{"x"},
		Annotations: annotations, Chain: 1, Cluster: &lifecycle.ClusterDetails{ClusterStatus: lifecycle.ClusterStatus{Runtime: "x", Regime: "x", Note: "x"}},
	}
	if add := table[typ].sample; add != nil {
		add(&t)
	}
	switch {
	case t.Environment != nil:
		e := lifecycle.Environment{ID: "x", Provider: "x", Version: "x", Region: "x", URL: "https://x", Class: "x", Pools: []string{"x"}, Note: "x"}
		previous := e
		t.Environment = &lifecycle.EnvironmentDetails{Environment: e, Previous: &previous, BeneathReason: "x"}
	case t.Verdict != nil:
		t.Verdict.Message, t.Verdict.Reasons, t.Verdict.Metrics = "x", []string{"x"}, []verdict.MetricSummary{{Name: "x", Reason: "x"}}
	}
	return t
}

// Whatever field of an object a secret stands in, no event has it.
func TestNoEventHasCredentials(t *testing.T) {
	fields := map[string]bool{}
	for typ := range table {
		for version := range table[typ].forms {
			for _, text := range plantedIn {
				tr, p := full(typ), profile(version)
				p.Extensions = map[string]string{"team": "x"}
				visit := func(path string) {
					fields[path] = true
					e, err := Render(p, sampleSubject(typ), tr)
					if err != nil {
						t.Fatalf("%s of %s: %v", path, typ, err)
					}
					if all := strings.Join(binaryHeaders(e.Event), "\n") + string(e.Data()); strings.Contains(all, planted) {
						t.Errorf("%s of %s shows the secret of %q:\n%s", path, typ, text, all)
					}
				}
				plant(reflect.ValueOf(&tr), "transition", text, visit)
				plant(reflect.ValueOf(&p), "profile", text, visit)
			}
		}
	}
	for _, path := range []string{
		"transition.Revision.Annotations[" + AnnotationRepository + "]", "transition.Annotations[" + AnnotationLinks + "]", "transition.Revision.Images[0].Image",
		"transition.Incident.Trouble.Message", "transition.Environment.Environment.URL", "transition.Verdict.Message", "profile.Environment.ID", "profile.Extensions[team]",
	} {
		if !fields[path] {
			t.Errorf("no secret was planted in %s", path)
		}
	}
}

// What the journal holds is shared with the memory, and does not change.
func TestCuttingCredentialsChangesNoInput(t *testing.T) {
	tr, same := full(lifecycle.Deployed), full(lifecycle.Deployed)
	for _, x := range []*lifecycle.Transition{&tr, &same} {
		x.Revision.Annotations[AnnotationRepository], x.Revision.Images[0].Image, x.URLs[0] = plantedIn[0], plantedIn[3], plantedIn[4]
	}
	p := profile(Version05)
	p.Extensions = map[string]string{"team": plantedIn[0]}
	if _, err := Render(p, cart, tr); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(tr, same) || p.Extensions["team"] != plantedIn[0] {
		t.Errorf("%+v", tr)
	}
}

// An id does not depend on what is cut: it is that of the journal.
func TestIDsAreThoseOfTheJournal(t *testing.T) {
	p := profile(Version05)
	p.Environment = v1alpha1.Environment{ID: plantedIn[1]}
	tr := full(lifecycle.Deployed)
	e, err := Render(p, cart, tr)
	if err != nil {
		t.Fatal(err)
	}
	if want := ID(p, cart, tr.Sequence, tr.Time); e.ID() != want {
		t.Errorf("%s, want %s", e.ID(), want)
	}
}
