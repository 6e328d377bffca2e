// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/oracle"
)

// TestRivalEvents moves the traffic of ten Services two hundred times, and ends both reporters once in between. It
// proves nothing: it prints what a receiver hears from each, beside what happened.
func TestRivalEvents(t *testing.T) {
	if os.Getenv("E2E_RIVALS") == "" || suite.guest {
		t.Skip("it takes minutes, and needs Knative Eventing: make compare")
	}
	s := newStorm(t)
	ctx := t.Context()
	raw := s.serve("raw")
	s.apiServerSource("raw")
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprintf("s%d", i))
	}
	s.deployAll(names...)
	over := s.blow(200, 500*time.Millisecond)
	time.Sleep(40 * time.Second)
	policy := metav1.ListOptions{LabelSelector: "eventing.knative.dev/sourceName=raw"}
	s.must(suite.Kube.CoreV1().Pods(s.ns).DeleteCollection(ctx, metav1.DeleteOptions{}, policy))
	s.must(suite.Controller.Restart(ctx))
	over()
	for _, name := range names {
		s.must(s.inForce(ctx, name))
	}
	s.remove("s0")
	v := s.judge(s.sink, time.Minute)
	all, err := s.sink.events(ctx)
	s.must(err)
	invalid := 0
	for _, e := range all {
		if validate(e, "0.5.1") != nil {
			invalid++
		}
	}
	time.Sleep(10 * time.Second) // for what ApiServerSource still sends
	came, err := raw.events(ctx)
	s.must(err)
	objects := make([]oracle.Object, len(came))
	for i, e := range came {
		objects[i] = oracle.Object{Type: e.Header.Get("Ce-Type"), Body: e.Body}
	}
	h, err := oracle.Listen(s.history.Lives(), objects)
	s.must(err)
	for _, lost := range h.Lost {
		t.Logf("ApiServerSource did not tell: %s", lost)
	}
	// What a duplicate of ours says is not new either, but that is what doubled means.
	table := fmt.Sprintf(`| | events | lost | say nothing new, or what is not so | doubled | out of order | invalid |
|---|---|---|---|---|---|---|
| knative-cdevents | %d | %d | %d | %d | %d | %d |
| ApiServerSource | %d | %d | %d | %d | %d | no CDEvents |
`, v.Events+v.Duplicates, len(v.Lost)+len(v.Missed), len(v.Invented), v.Duplicates, len(v.Disordered), invalid,
		h.Events, len(h.Lost), h.NothingNew, h.Doubled, h.Disordered)
	t.Logf("%d events of ApiServerSource tell of traffic that is not in force", h.NotInForce)
	t.Logf("%d Services, %d changes of traffic\n%s", v.Lives, v.Changes, table)
}

// apiServerSource has Eventing send all Services, Revisions and Routes of the namespace to a sink.
func (s *scene) apiServerSource(sink string) {
	s.Helper()
	s.must(suite.Apply(s.Context(), s.ns, fmt.Sprintf(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: %[1]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: %[1]s}
rules: [{apiGroups: [serving.knative.dev], resources: [services, routes, revisions], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[1]s}
subjects: [{kind: ServiceAccount, name: %[1]s, namespace: %[2]s}]
---
apiVersion: sources.knative.dev/v1
kind: ApiServerSource
metadata: {name: %[1]s}
spec:
  serviceAccountName: %[1]s
  mode: Resource
  resources:
  - {apiVersion: serving.knative.dev/v1, kind: Service}
  - {apiVersion: serving.knative.dev/v1, kind: Route}
  - {apiVersion: serving.knative.dev/v1, kind: Revision}
  sink: {ref: {apiVersion: v1, kind: Service, name: %[1]s}}
`, sink, s.ns)))
	sources := schema.GroupVersionResource{Group: "sources.knative.dev", Version: "v1", Resource: "apiserversources"}
	s.must(suite.WaitReady(s.Context(), sources, s.ns, sink))
}
