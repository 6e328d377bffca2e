// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
)

func TestWitness(t *testing.T) {
	answered := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	w := &reference{}
	for name, before := range map[string]time.Duration{"cart": time.Millisecond, "shop": -time.Millisecond} {
		r := servingv1.Route{ObjectMeta: metav1.ObjectMeta{Name: name}}
		r.Status.Traffic = traffic(name, 10)
		text, err := json.Marshal(map[string]any{"type": "MODIFIED", "object": r})
		if err != nil {
			t.Fatal(err)
		}
		w.lines = append(w.lines, line{answered.Add(-before), text})
	}
	commits := []commit{
		{change: change{"cart", 10}, At: answered}, {change: change{"shop", 10}, At: answered}, {change: change{"cart", 20}, At: answered},
	}
	if err := w.correct(commits); err != nil {
		t.Fatal(err)
	}
	for i, want := range []time.Time{answered.Add(-time.Millisecond), answered, answered} {
		if !commits[i].At.Equal(want) {
			t.Errorf("%+v: got %v, want %v", commits[i].change, commits[i].At, want)
		}
	}
	w.lines = append(w.lines, line{answered, []byte("torn")})
	if w.correct(commits) == nil {
		t.Error("a torn line was accepted")
	}
}
