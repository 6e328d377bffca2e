// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestDecode(t *testing.T) {
	const shifted = "dev.cdeventsx.knative-traffic.shifted.0.1.0"
	cart := change{"cart", 10}
	for name, c := range map[string]struct {
		decode  func(request) (change, bool)
		request request
		want    change
	}{
		"a CDEvent": {fromCDEvent, request{Type: shifted, Body: []byte(
			`{"customData":{"knative":{"name":"cart","traffic":[{"revision":"cart-00001","percent":90},{"revision":"cart-00002","percent":10}],` +
				`"previousTraffic":[{"revision":"cart-00002","percent":9}]}}}`)}, cart},
		"another CDEvent":  {fromCDEvent, request{Type: "dev.cdevents.service.upgraded.0.3.0", Body: []byte(`{}`)}, change{}},
		"a broken CDEvent": {fromCDEvent, request{Type: shifted, Body: []byte(`{`)}, change{}},
		"a Route": {fromResource, request{Body: []byte(
			`{"kind":"Route","metadata":{"name":"cart"},"status":{"traffic":[{"revisionName":"cart-00001","percent":90},{"revisionName":"cart-00002","percent":10}]}}`)}, cart},
		"a Service": {fromResource, request{Body: []byte(
			`{"kind":"Service","metadata":{"name":"cart"},"status":{"traffic":[{"revisionName":"cart-00002","percent":10}]}}`)}, change{}},
		"a bare event": {fromBare, request{Body: []byte(
			`{"name":"cart","traffic":[{"revisionName":"cart-00001","percent":90},{"revisionName":"cart-00002","percent":10}]}`)}, cart},
		"no split": {fromBare, request{Body: []byte(`{"name":"cart","traffic":[{"revisionName":"cart-00001","percent":100}]}`)}, change{}},
	} {
		got, ok := c.decode(c.request)
		if got != c.want || ok != (c.want != change{}) {
			t.Errorf("%s: got %+v, %v", name, got, ok)
		}
	}
}

func TestRotationStartsWithEachContestant(t *testing.T) {
	begins := map[string]bool{}
	for i := range contestants {
		all := rotated(i)
		if len(all) != len(contestants) {
			t.Fatalf("repeat %d has %d contestants", i, len(all))
		}
		begins[all[0].Name] = true
	}
	if len(begins) != len(contestants) {
		t.Errorf("only %v begin", begins)
	}
}
