// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/oracle"
)

// heard is what came of a number of changes.
type heard struct {
	from                                                      string
	events, lost, nothingNew, notInForce, doubled, disordered int
	invalid                                                   string
}

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
	ours := heard{
		from: "knative-cdevents", events: v.Events + v.Duplicates, lost: len(v.Lost) + len(v.Missed), notInForce: len(v.Invented), doubled: v.Duplicates,
		disordered: len(v.Disordered),
	}
	bad := 0
	for _, e := range all {
		if validate(e, "0.5.1") != nil {
			bad++
		}
	}
	ours.invalid = strconv.Itoa(bad)
	time.Sleep(10 * time.Second) // for what ApiServerSource still sends
	all, err = raw.events(ctx)
	s.must(err)
	var b strings.Builder
	b.WriteString("| | events | lost | say nothing new | not in force | doubled | out of order | invalid |\n|---|---|---|---|---|---|---|---|\n")
	for _, h := range []heard{ours, listen(all, s.history.Lives())} {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d | %s |\n", h.from, h.events, h.lost, h.nothingNew, h.notInForce, h.doubled, h.disordered, h.invalid)
	}
	t.Logf("%d Services, %d changes of traffic\n%s", v.Lives, v.Changes, &b)
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

// listen returns what a receiver of raw objects hears, if it remembers all of them: only then does it know which say
// something new, and which are old.
func listen(all []event, lives []oracle.Life) heard {
	h := heard{from: "ApiServerSource", events: len(all), invalid: "no CDEvents"}
	told, came, last, split := map[string]bool{}, map[string]bool{}, map[types.UID]uint64{}, map[types.UID]oracle.Split{}
	for _, e := range all {
		var o struct {
			Kind     string
			Metadata metav1.ObjectMeta
		}
		if json.Unmarshal(e.Body, &o) != nil {
			continue // the sink has parsed it
		}
		uid, what := o.Metadata.UID, e.Header.Get("Ce-Type")
		if once := fmt.Sprint(uid, o.Metadata.ResourceVersion); came[once] {
			h.doubled++
		} else {
			came[once] = true
		}
		// Versions of an object are numbers that grow.
		if n, err := strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64); err == nil && n < last[uid] {
			h.disordered++
		} else {
			last[uid] = n
		}
		isNew := false
		for _, fact := range facts(o.Kind, what, e.Body, split) {
			isNew = isNew || !told[fact]
			told[fact] = true
		}
		if !isNew {
			h.nothingNew++
		}
		if o.Kind == "Route" && early(e.Body) {
			h.notInForce++
		}
	}
	for _, l := range lives {
		for _, fact := range happened(l) {
			if !told[fact] {
				h.lost++
			}
		}
	}
	return h
}

// facts are those that an object shows. A split is a new one each time that it takes effect.
func facts(kind, what string, body []byte, split map[types.UID]oracle.Split) []string {
	var out []string
	switch kind {
	case "Service":
		var s servingv1.Service
		if json.Unmarshal(body, &s) != nil {
			return nil
		}
		if out = append(out, fmt.Sprint("created ", s.UID)); s.IsReady() {
			out = append(out, fmt.Sprint("ready ", s.UID))
		}
		if strings.HasSuffix(what, ".delete") {
			out = append(out, fmt.Sprint("removed ", s.UID))
		}
	case "Revision":
		var r servingv1.Revision
		if json.Unmarshal(body, &r) == nil && r.IsReady() {
			out = append(out, fmt.Sprint("ready ", r.UID))
		}
	case "Route":
		var r servingv1.Route
		if json.Unmarshal(body, &r) != nil {
			return nil
		}
		owner := metav1.GetControllerOf(&r)
		if now := oracle.Effective(&r); owner != nil && now != "" && now != split[owner.UID] {
			split[owner.UID] = now
			out = append(out, fmt.Sprint(owner.UID, now))
		}
	}
	return out
}

// early reports whether a Route tells of traffic that is not in force.
func early(body []byte) bool {
	var r servingv1.Route
	return json.Unmarshal(body, &r) == nil && len(r.Status.Traffic) > 0 && oracle.Effective(&r) == ""
}

// happened are the facts of a Service.
func happened(l oracle.Life) []string {
	out := []string{fmt.Sprint("created ", l.UID)}
	if !l.Ready.IsZero() {
		out = append(out, fmt.Sprint("ready ", l.UID))
	}
	if !l.Gone.IsZero() {
		out = append(out, fmt.Sprint("removed ", l.UID))
	}
	for _, m := range l.Splits {
		out = append(out, fmt.Sprint(l.UID, m.Split))
	}
	return out
}
