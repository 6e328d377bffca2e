// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSettledRequiresAllPodsToBeNew(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{"metadata":{"generation":2},"spec":{"replicas":1},"status":{"observedGeneration":2,"replicas":1,"updatedReplicas":1,"availableReplicas":1}}`: true,
		`{"metadata":{"generation":3},"spec":{"replicas":1},"status":{"observedGeneration":2,"replicas":1,"updatedReplicas":1,"availableReplicas":1}}`: false,
		`{"metadata":{"generation":2},"spec":{"replicas":1},"status":{"observedGeneration":2,"replicas":2,"updatedReplicas":1,"availableReplicas":2}}`: false,
		`{"metadata":{"generation":2},"spec":{"replicas":2},"status":{"observedGeneration":2,"replicas":2,"updatedReplicas":2,"availableReplicas":1}}`: false,
		`{"metadata":{"generation":1},"spec":{"replicas":0},"status":{"observedGeneration":1}}`:                                                        true,
	} {
		if got := decode[Deployment](t, text).Settled(); got != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
}

func TestTroubleNamesTheCause(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"status":{"phase":"Running","containerStatuses":[{"name":"a","ready":true,"state":{}}]}}`: "",
		`{"status":{"phase":"Pending"}}`: "pending",
		`{"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","message":"Insufficient cpu"}]}}`:                           "Insufficient cpu",
		`{"status":{"phase":"Pending","containerStatuses":[{"name":"a","state":{"waiting":{"reason":"ImagePullBackOff","message":"no such image"}}}]}}`: "ImagePullBackOff no such image",
		`{"status":{"phase":"Running","containerStatuses":[{"name":"a","restartCount":4,"state":{"terminated":{"reason":"Error","exitCode":2}}}]}}`:     "exit code 2",
		`{"status":{"phase":"Running","containerStatuses":[{"name":"a","restartCount":4,"state":{}}]}}`:                                                 "4 restarts",
	} {
		got := decode[Pod](t, text).Trouble()
		if !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: got %q", text, got)
		}
	}
}

func TestNodeReadyReportsTheNodesMessage(t *testing.T) {
	t.Parallel()
	answer := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if answer == "" {
			http.Error(w, "nodes \"a\" not found", http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(answer)) // the client reads it or fails
	}))
	t.Cleanup(s.Close)
	c := &Client{base: s.URL, http: s.Client()}
	for _, step := range []struct{ answer, want string }{
		{"", "not found"},
		{`{"status":{}}`, "has not reported"},
		{`{"status":{"conditions":[{"type":"Ready","status":"False","message":"cni plugin not initialized"}]}}`, "cni plugin not initialized"},
		{`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, ""},
	} {
		answer = step.answer
		err := c.NodeReady(t.Context(), "a")
		if step.want == "" && err != nil || step.want != "" && (err == nil || !strings.Contains(err.Error(), step.want)) {
			t.Errorf("%s: got %v", step.answer, err)
		}
	}
}

func TestRunsSinceBefore(t *testing.T) {
	t.Parallel()
	pod := decode[Pod](t, `{"status":{"containerStatuses":[{"name":"a","state":{"waiting":{}}},{"name":"b","state":{"running":{"startedAt":"2026-01-01T00:00:10Z"}}}]}}`)
	start := time.Date(2026, 1, 1, 0, 0, 10, 0, time.UTC)
	for after, want := range map[time.Duration]bool{-time.Second: false, 0: false, 900 * time.Millisecond: false, time.Second: true} {
		if got := pod.RunsSinceBefore(start.Add(after)); got != want {
			t.Errorf("%s: got %v", after, got)
		}
	}
}
