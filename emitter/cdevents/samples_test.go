package cdevents

import (
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// A new type without what its sample needs would have filters go untried.
func TestThereIsASampleOfEachType(t *testing.T) {
	for version, forms := range table {
		samples, err := Samples(v1alpha1.Profile{SpecVersion: version, Source: "https://cluster.example.com", Extensions: map[string]string{"team": "web", "ID": "left out"}})
		if err != nil {
			t.Fatal(err)
		}
		types, traced := map[string]bool{}, 0
		for _, ev := range samples {
			types[ev.Type()] = true
			if ev.Extensions()["team"] != "web" {
				t.Errorf("%s lacks what ceOverrides say", ev.Type())
			}
			if ev.Extensions()["traceparent"] != nil {
				traced++
			}
		}
		for typ, form := range forms {
			if !types[form.typ.String()] {
				t.Errorf("%s: no sample of %s", version, typ)
			}
		}
		if traced != len(forms) || len(samples) != 2*len(forms) {
			t.Errorf("%s: %d of %d samples are traced", version, traced, len(samples))
		}
	}
	if _, err := Samples(v1alpha1.Profile{SpecVersion: "9", Source: "https://cluster.example.com"}); err == nil {
		t.Error("samples of a version that is not spoken")
	}
}
