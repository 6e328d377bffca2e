// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/cli/screen"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
	"github.com/knative-cdevents/knative-cdevents/test/fleet"
)

// hostile sets the title of a terminal, clears it, colours, fakes lines, reverses what follows, and has a secret.
const hostile = "bad\x1b]0;owned\x07\x1b[2J\x1b[32m\rall\n\nNothing is wrong\u009b31m\u0085\u202egnp.exe\u2066\u200b\x7f https://ci:s3cret@git.example.com/?token=s3cret"

// TestHostileText lets all commands show what hostile users can write, on a pipe and on a terminal.
func TestHostileText(t *testing.T) {
	cp := controlplane.Start(t)
	config := kubeconfig(t, cp, "operator", "system:masters")
	f := newHostileFleet(t, cp)
	all := []string{
		"list -n shop", "list -A -o wide", "list -A -o json", "list -A -o yaml", "history cart -n shop", "history cart -n shop -o wide", "history cart -n shop -o json",
		"history cluster/prod -n fleet", "history cluster/prod -n fleet -o yaml", "gate cart -n shop", "gate cart -n shop -o json", "gate cart -n shop -o yaml", "gate ended -n shop",
		"why -A", "why cart -n shop", "why source/staging -n shop", "why gate/cart-gate -n shop", "why -A -o json", "why -A -o yaml",
		"why -A -o jsonpath={.findings[*].message}", "history nope\x1b[2J -n shop", "check -n shop", "check -n shop -o json", "test-event staging -n shop", "why -A -o name", "list -A -o name", "__complete history -n shop c", "__complete gate -n shop c",
	}
	for _, on := range []string{"", "terminal", "ascii"} {
		shown := 0
		for _, line := range all {
			got := run(t, config, on, strings.Split(line, " ")...)
			text := got.out + got.err
			for _, style := range []screen.Style{screen.Bold, screen.Dim, screen.Good, screen.Bad, screen.Unsure, "\x1b[0m"} {
				if on == "terminal" && (!strings.Contains(line, " -o ") || strings.Contains(line, " -o wide")) {
					text = strings.ReplaceAll(text, string(style), "")
				}
			}
			inert(t, on+" "+line, text)
			shown += strings.Count(text, `\x1b`)
		}
		if shown < 15 {
			t.Errorf("on %q, only %d escapes are shown: the commands show too little of what is hostile", on, shown)
		}
	}
	f.watched(t, config)
}

// inert checks that a text has no character that a terminal obeys, no line that somebody else wrote, and no secret.
func inert(t *testing.T, what, text string) {
	t.Helper()
	for i, r := range text {
		if r != '\n' && r != '\t' && (!unicode.IsGraphic(r) || r == '\u2028' || r == unicode.ReplacementChar) {
			t.Errorf("%s printed %q", what, text[max(0, i-40):min(len(text), i+40)])
			break
		}
	}
	if strings.Contains(text, "\nNothing is wrong\\u009b") && !strings.Contains(what, " -o ") {
		t.Errorf("%s printed a line of somebody else:\n%s", what, text)
	}
	if strings.Contains(text, "s3cret") {
		t.Errorf("%s printed a secret:\n%s", what, text)
	}
}

type hostileFleet struct{ *fleet.Fleet }

func newHostileFleet(t *testing.T, cp *controlplane.ControlPlane) hostileFleet {
	t.Helper()
	f := hostileFleet{fleet.New(t, cp)}
	source := f.AddSource(t, fleet.Shop, "staging", "missing", v1alpha1.CDEventSourceStatus{Pending: 2, OldestPending: micro(25 * time.Minute)},
		fleet.Broken{Type: v1alpha1.SourceConditionDelivering, Reason: hostile, Message: hostile})
	cart := f.AddService(t, "cart", "Broken", 90, 10)
	cart.Status.Conditions[0].Reason, cart.Status.Conditions[0].Message = hostile, hostile
	cart.Status.Annotations = map[string]string{"cdevents.knative-cdevents.dev/repository": hostile}
	fleet.Must[*servingv1.Service](t)(f.Serving.ServingV1().Services(fleet.Shop).UpdateStatus(t.Context(), cart, metav1.UpdateOptions{}))
	run := fleet.Run(noon, 120, .36)
	run.Message, run.Reasons = hostile, []string{hostile}
	run.Report = &verdict.Judgement{Verdict: verdict.Running, Metrics: []verdict.MetricResult{{Name: hostile, Verdict: verdict.Running, Reason: hostile}}}
	f.AddGate(t, "cart-gate", "cart", run)
	ended := *run
	at := metav1.NewTime(ago(time.Minute))
	ended.ID, ended.CompletionTime, ended.Verdict = "r2", &at, verdict.Fail
	f.AddGate(t, "ended", "cart", &ended)
	f.entries(t, cart.UID, source)
	return f
}

func (f hostileFleet) entries(t *testing.T, cart, source types.UID) {
	t.Helper()
	about := v1alpha1.CDEventSubjectSpec{Kind: "Service", Namespace: fleet.Shop, Name: "cart", UID: cart}
	revision := &lifecycle.Revision{Name: hostile, Annotations: map[string]string{"cdevents.knative-cdevents.dev/repository": hostile}}
	service := fleet.Entry(about, lifecycle.Memory{Sequence: 3, Primary: hostile, Revisions: map[string]lifecycle.KnownRevision{hostile: {Revision: *revision}}}, source,
		lifecycle.Transition{Sequence: 2, Time: ago(time.Hour), Type: lifecycle.IncidentDetected, Incident: &lifecycle.IncidentDetails{
			Kind: lifecycle.Outage, Opened: 2, Since: ago(time.Hour), Trouble: lifecycle.Trouble{Reason: hostile, Message: hostile},
		}},
		lifecycle.Transition{Sequence: 3, Time: ago(time.Minute), Type: lifecycle.Upgraded, Reason: hostile, Revision: revision, Traffic: []lifecycle.Share{{Revision: hostile, Percent: 100}}})
	service.Status.Dropped = map[string]int64{hostile: 1}
	about.Kind, about.Namespace, about.Name, about.UID = "Cluster", fleet.Clusters, "prod", "u-prod"
	environment := fleet.Entry(about, lifecycle.EnvironmentMemory{Sequence: 2, Environment: lifecycle.Environment{Version: hostile, Note: hostile}}, source,
		lifecycle.Transition{Sequence: 2, Time: ago(time.Minute), Type: lifecycle.EnvironmentModified, Environment: &lifecycle.EnvironmentDetails{
			Environment: lifecycle.Environment{ID: hostile, Version: hostile, URL: hostile, Note: hostile}, Changed: []string{hostile},
		}})
	f.AddEntry(t, service)
	f.AddEntry(t, environment)
}

// watched watches while more of it comes.
func (f hostileFleet) watched(t *testing.T, config string) {
	t.Helper()
	var said shared
	ctx, end := context.WithCancel(t.Context())
	defer end()
	go runTo(ctx, &said, config, "watch", "-n", fleet.Shop)
	said.waitFor(t, "watching namespace shop")
	f.AddSource(t, fleet.Shop, "another", "missing", v1alpha1.CDEventSourceStatus{},
		fleet.Broken{Type: v1alpha1.SourceConditionSinkProvided, Reason: "Broken", Message: hostile})
	said.waitFor(t, "another")
	time.Sleep(time.Second)
	end()
	said.mu.Lock()
	defer said.mu.Unlock()
	inert(t, "watch", said.text.String())
}
