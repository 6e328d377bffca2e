// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/oracle"
)

// TestRivalEvents moves the traffic of ten Services two hundred times, and ends all reporters once in between. It
// proves nothing: it prints what a receiver hears from each, beside what happened. E2E_KUBEWATCH is a program of
// kubewatch; without it, kubewatch is left out.
func TestRivalEvents(t *testing.T) {
	if os.Getenv("E2E_RIVALS") == "" || suite.guest {
		t.Skip("it takes minutes, and needs Knative Eventing: make compare")
	}
	s := newStorm(t)
	ctx := t.Context()
	raw := s.serve("raw")
	s.apiServerSource("raw")
	watcher := s.kubewatch("kubewatch")
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprintf("s%d", i))
	}
	s.deployAll(names...)
	over := s.blow(200, 500*time.Millisecond)
	time.Sleep(40 * time.Second)
	policy := metav1.ListOptions{LabelSelector: "eventing.knative.dev/sourceName=raw"}
	s.must(suite.Kube.CoreV1().Pods(s.ns).DeleteCollection(ctx, metav1.DeleteOptions{}, policy))
	watcher.again()
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
	time.Sleep(10 * time.Second) // for what the others still send
	came, err := raw.events(ctx)
	s.must(err)
	objects := make([]oracle.Object, len(came))
	for i, e := range came {
		objects[i] = oracle.Object{Type: e.Header.Get("Ce-Type"), Body: e.Body}
	}
	// What a duplicate of ours says is not new either, but that is what doubled means.
	table := fmt.Sprintf(`| | events | lost | say nothing new, or what is not so | doubled | out of order | invalid |
|---|---|---|---|---|---|---|
| knative-cdevents | %d | %d | %d | %d | %d | %d |
`, v.Events+v.Duplicates, len(v.Lost)+len(v.Missed), len(v.Invented), v.Duplicates, len(v.Disordered), invalid)
	table += s.heard("ApiServerSource", objects)
	if watcher != nil {
		objects, deployments := watcher.sent()
		table += s.heard("kubewatch", objects)
		t.Logf("By the rules of cdviz-collector, what kubewatch sent of %d changes of Deployments is: %v", len(deployments), byCDviz(deployments))
	}
	t.Logf("%d Services, %d changes of traffic\n%s", v.Lives, v.Changes, table)
}

// heard is the row of a reporter that sends objects as they are.
func (s *storm) heard(name string, objects []oracle.Object) string {
	s.Helper()
	h, err := oracle.Listen(s.history.Lives(), objects)
	s.must(err)
	for _, lost := range h.Lost {
		s.Logf("%s did not tell: %s", name, lost)
	}
	s.Logf("%d events of %s tell of traffic that is not in force", h.NotInForce, name)
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d | no CDEvents |\n", name, h.Events, len(h.Lost), h.NothingNew, h.Doubled, h.Disordered)
}

// kubewatch runs on this machine, and sends to a sink in the cluster.
type kubewatch struct {
	s    *scene
	sink *sink

	start, stop func()
}

// kubewatch starts the program that E2E_KUBEWATCH names; nil if it names none.
func (s *scene) kubewatch(name string) *kubewatch {
	s.Helper()
	program := os.Getenv("E2E_KUBEWATCH")
	if program == "" {
		return nil
	}
	k := &kubewatch{s: s, sink: s.serve(name)}
	svc, err := suite.Kube.CoreV1().Services(s.ns).Get(s.Context(), name, metav1.GetOptions{})
	s.must(err)
	dir := s.TempDir()
	k.start = func() {
		stop, err := suite.RunKubewatch(s.Context(), program, dir, "http://"+svc.Spec.ClusterIP)
		s.must(err)
		k.stop = func() { s.must(stop()) }
	}
	k.start()
	s.Cleanup(func() { k.stop() })
	time.Sleep(5 * time.Second) // it does not say when it watches
	return k
}

// again ends it and starts it again, if it runs.
func (k *kubewatch) again() {
	if k != nil {
		k.stop()
		k.start()
	}
}

// sentChange is what kubewatch sends: what was done to an object, and the object.
type sentChange struct {
	Operation, Kind string
	Obj, OldObj     json.RawMessage
}

// sent returns the objects of Serving and the changes of Deployments in this namespace, as they came.
func (k *kubewatch) sent() (serving []oracle.Object, deployments []sentChange) {
	k.s.Helper()
	came, err := k.sink.requests(k.s.Context())
	k.s.must(err)
	types := map[string]string{"create": "add", "update": "update", "delete": "delete"}
	for _, e := range came {
		var said struct{ Data sentChange }
		k.s.must(json.Unmarshal(e.Body, &said))
		var of metav1.PartialObjectMetadata
		k.s.must(json.Unmarshal(said.Data.Obj, &of))
		switch {
		case of.Namespace != k.s.ns:
		case said.Data.Kind == "Deployment":
			deployments = append(deployments, said.Data)
		default:
			serving = append(serving, oracle.Object{Type: "dev.knative.apiserver.resource." + types[said.Data.Operation], Body: said.Data.Obj})
		}
	}
	return serving, deployments
}

// byCDviz counts the events that cdviz-collector would make of changes of Deployments: one for each container that is
// new, has another image, or is gone. The rules are those of its transformer kubewatch_cloudevents, as read.
func byCDviz(changes []sentChange) map[string]int {
	out := map[string]int{}
	for _, c := range changes {
		before, after := images(c.OldObj), images(c.Obj)
		for name, image := range after {
			switch old, existed := before[name]; {
			case !existed:
				out["deployed"]++
			case old != image:
				out["upgraded"]++
			}
		}
		for name := range before {
			if _, exists := after[name]; !exists {
				out["removed"]++
			}
		}
	}
	return out
}

// images are those of a Deployment's containers; none if there is no Deployment.
func images(object []byte) map[string]string {
	var of appsv1.Deployment
	_ = json.Unmarshal(object, &of) // null is none
	out := map[string]string{}
	for _, c := range of.Spec.Template.Spec.Containers {
		out[c.Name] = c.Image
	}
	return out
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
