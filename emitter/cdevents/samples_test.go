// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// A type without a valid sample would leave filters untested.
func TestEveryTypeHasASample(t *testing.T) {
	for _, version := range []string{Version05, Version04} {
		samples, err := Samples(v1alpha1.Profile{SpecVersion: version, Source: "https://cluster.example.com", Extensions: map[string]string{"team": "web", "ID": "left out"}})
		if err != nil {
			t.Fatal(err)
		}
		types, traced := map[string]bool{}, 0
		for _, ev := range samples {
			types[ev.Type()] = true
			if ev.Extensions()["team"] != "web" {
				t.Errorf("%s lacks the ceOverrides", ev.Type())
			}
			if ev.Extensions()["traceparent"] != nil {
				traced++
			}
		}
		for _, typ := range Types(version) {
			if !types[typ] {
				t.Errorf("%s: no sample of %s", version, typ)
			}
		}
		if n := len(Types(version)); traced != n || len(samples) != 2*n {
			t.Errorf("%s: %d of %d samples are traced", version, traced, len(samples))
		}
	}
	if _, err := Samples(v1alpha1.Profile{SpecVersion: "9", Source: "https://cluster.example.com"}); err == nil {
		t.Error("returned samples of an unsupported version")
	}
}
