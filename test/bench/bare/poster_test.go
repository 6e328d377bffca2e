// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
)

func route(percent int64, ready corev1.ConditionStatus) *servingv1.Route {
	r := &servingv1.Route{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}}
	r.Status.Traffic = []servingv1.TrafficTarget{{RevisionName: "cart-00002", Percent: &percent}}
	r.Status.Conditions = duckv1.Conditions{{Type: apis.ConditionReady, Status: ready}}
	return r
}

func TestOnlyNewSplitsAreSent(t *testing.T) {
	p := newPoster("")
	waiting := func() (n int) {
		for _, q := range p.queues {
			n += len(q)
		}
		return n
	}
	p.changed(route(10, corev1.ConditionTrue), route(10, corev1.ConditionTrue))
	p.changed(route(10, corev1.ConditionTrue), route(20, corev1.ConditionUnknown))
	if n := waiting(); n != 0 {
		t.Errorf("%d events without a new split", n)
	}
	p.changed(route(10, corev1.ConditionTrue), route(20, corev1.ConditionTrue))
	if n := waiting(); n != 1 {
		t.Errorf("%d events for one split", n)
	}
}

func TestPost(t *testing.T) {
	status := http.StatusAccepted
	var got split
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(raw, &got)
		}
		if err != nil || r.Header.Get("Ce-Type") != "bench.bare.shifted" {
			t.Errorf("%v, %q", err, raw)
		}
		w.WriteHeader(status)
	}))
	defer sink.Close()
	p := newPoster(sink.URL)
	if err := p.post(t.Context(), route(10, corev1.ConditionTrue)); err != nil || got.Name != "cart" || *got.Traffic[0].Percent != 10 {
		t.Errorf("got %+v, %v", got, err)
	}
	status = http.StatusServiceUnavailable
	if p.post(t.Context(), route(10, corev1.ConditionTrue)) == nil {
		t.Error("a rejection counted as success")
	}
}
