// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/cli/command"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/fleet"
)

// label sets the labels of Service cart.
func (f *fleetOf) label(t *testing.T, labels map[string]string) {
	t.Helper()
	s := fleet.Must[*servingv1.Service](t)(f.Serving.ServingV1().Services(fleet.Shop).Get(t.Context(), "cart", metav1.GetOptions{}))
	s.Labels = labels
	fleet.Must[*servingv1.Service](t)(f.Serving.ServingV1().Services(fleet.Shop).Update(t.Context(), s, metav1.UpdateOptions{}))
}

// selected selects by labels and by time, and prints names.
func (f *fleetOf) selected(t *testing.T, config string) {
	f.label(t, map[string]string{"team": "a"})
	for _, c := range []struct{ args, want, without string }{
		{"list -A -o name", "service.serving.knative.dev/cart cdeventsource.knative-cdevents.dev/all cluster/prod", ""},
		{"list -A -l team=a", "cart Running", "books releases prod bygone"},
		{"list -A -l team!=a", "books releases", "cart-00002 prod"},
		{"why -n shop -o name", "service.serving.knative.dev/hooks cdeventsource.knative-cdevents.dev/staging canarygate.knative-cdevents.dev/crat", "cdeventsource.knative-cdevents.dev/releases"},
		{"why -A -l team=a", "cart-gate", "staging crat prod"},
		{"gate cart -n shop -o name", "canarygate.knative-cdevents.dev/cart-gate", ""},
		{"gate books -n shop --since 27h", "Pass on books-00002", "Inconclusive"},
		{"history cart -n shop --since 10m", "traffic.shifted", "revision.ready incident"},
		{"history cart -n shop -o jsonpath={.events[*].sequence} --since 24h30m", "5 6 7", "4"},
	} {
		got := run(t, config, "", strings.Fields(c.args)...)
		got.errors(t, "")
		for _, word := range strings.Fields(c.want) {
			if !strings.Contains(got.out, word) {
				t.Errorf("%s printed %s%s, without %q", c.args, got.out, got.err, word)
			}
		}
		for _, word := range strings.Fields(c.without) {
			if strings.Contains(got.out, word) {
				t.Errorf("%s printed %s%s, with %q", c.args, got.out, got.err, word)
			}
		}
	}
	for _, args := range []string{"list -l =a", "why cart -l team=a", "watch cart -l team=a", "history cart --since -1h", "gate wait cart-gate --for=ready", "gate wait cart-gate --for=verdict=Maybe", "list --nope", "list cart", "nope", "history"} {
		if got := run(t, config, "", strings.Fields(args)...); command.Code(got.failed) != 2 {
			t.Errorf("%s ended with code %d: %v", args, command.Code(got.failed), got.failed)
		}
	}
	if got := run(t, config, "", "history", "nope", "-n", "shop"); command.Code(got.failed) != 1 {
		t.Errorf("for what does not exist, the code is %d", command.Code(got.failed))
	}
	f.label(t, nil)
}

// deleted asks about a Service that is gone, whose gate has its name. Another Service of that name was deleted, too.
func (f *fleetOf) deleted(t *testing.T, config string) {
	f.AddGate(t, "bygone", "bygone", nil)
	older := fleet.Entry(v1alpha1.CDEventSubjectSpec{Kind: "Service", Namespace: fleet.Shop, Name: "bygone", UID: "u-older"}, lifecycle.Memory{Sequence: 2, Removed: true}, f.sources["all"],
		lifecycle.Transition{Sequence: 2, Time: ago(50 * time.Minute), Type: lifecycle.Removed, Revision: &lifecycle.Revision{Name: "bygone-00001"}})
	older.Status.Removed = true
	f.AddEntry(t, older)
	for _, name := range []string{"bygone", "service/bygone"} {
		got := run(t, config, "", "why", name, "-n", "shop")
		got.errors(t, "")
		for _, want := range []string{
			"delivered: 1 to staging\n", "delivered: 1 to knative-cdevents/all\n", "CDEventSource shop/staging\n", "CDEventSource knative-cdevents/all\n", "CanaryGate shop/bygone\n",
		} {
			if strings.Count(got.out, want) != 1 {
				t.Errorf("why %s printed %s, without %q", name, got.out, want)
			}
		}
	}
	_, end := begin(t, config, "watching Service bygone in namespace shop", "watch", "bygone", "-n", "shop")
	if r := end(); r.failed != nil {
		t.Errorf("watch of a Service that is gone failed: %v", r.failed)
	}
	if err := f.Events.CDEventSubjects(fleet.System).Delete(t.Context(), older.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := f.Events.CanaryGates(fleet.Shop).Delete(t.Context(), "bygone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// begin runs a command until the test ends it, and waits for the first words.
func begin(t *testing.T, config, first string, args ...string) (lines *shared, end func() result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	lines = &shared{}
	done := make(chan result, 1)
	go func() { done <- runTo(ctx, lines, config, args...) }()
	lines.waitFor(t, first)
	return lines, func() result {
		cancel()
		return <-done
	}
}

// split gives cart's canary another share.
func (f *fleetOf) split(t *testing.T, percents ...int64) {
	t.Helper()
	s := fleet.Must[*servingv1.Service](t)(f.Serving.ServingV1().Services(fleet.Shop).Get(t.Context(), "cart", metav1.GetOptions{}))
	fleet.Split(s, percents...)
	fleet.Must[*servingv1.Service](t)(f.Serving.ServingV1().Services(fleet.Shop).UpdateStatus(t.Context(), s, metav1.UpdateOptions{}))
}

// judge sets the newest run of gate cart-gate.
func (f *fleetOf) judge(t *testing.T, canary string, v verdict.Verdict, reasons ...string) {
	t.Helper()
	gate := fleet.Must[*v1alpha1.CanaryGate](t)(f.Events.CanaryGates(fleet.Shop).Get(t.Context(), "cart-gate", metav1.GetOptions{}))
	gate.Status.Latest.Canary, gate.Status.Latest.Verdict, gate.Status.Latest.Reasons = canary, v, reasons
	fleet.Must[*v1alpha1.CanaryGate](t)(f.Events.CanaryGates(fleet.Shop).UpdateStatus(t.Context(), gate, metav1.UpdateOptions{}))
}

// follow lets things happen while commands run with -w.
func (f *fleetOf) follow(t *testing.T, config string) {
	lists, endList := begin(t, config, "90 % cart-00001", "list", "-n", "shop", "-w")
	names, endNames := begin(t, config, "cart\n", "list", "-n", "shop", "-w", "-o", "name")
	objects, endObjects := begin(t, config, `"traffic"`, "list", "-n", "shop", "-w", "-o", "json")
	findings, endFindings := begin(t, config, "staging", "why", "-n", "shop", "-w")
	f.split(t, 70, 30)
	lists.waitFor(t, "\n12:00:00\nSERVICE   READY   TRAFFIC")
	lists.waitFor(t, "cart      True    70 % cart-00001, 30 % cart-00002")
	objects.waitFor(t, `"percent": 30`)
	names.waitFor(t, "staging\nservice.serving.knative.dev/cart\n")
	f.AddSource(t, fleet.Shop, "newest", "nowhere", v1alpha1.CDEventSourceStatus{}, fleet.Missing("nowhere"))
	findings.waitFor(t, "CDEventSource shop/newest")
	lists.waitFor(t, "newest")
	if err := f.Events.CDEventSources(fleet.Shop).Delete(t.Context(), "newest", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	lists.waitFor(t, "newest   Gone")
	f.split(t, 90, 10)
	for _, end := range []func() result{endList, endNames, endObjects, endFindings} {
		if r := end(); r.failed != nil {
			t.Errorf("%v failed: %v", r.args, r.failed)
		}
	}
	gates, endGates := begin(t, config, "Gate cart-gate", "gate", "cart", "-n", "shop", "-w")
	f.judge(t, "cart-00003", verdict.Running)
	gates.waitFor(t, "12:00:00\nGate cart-gate")
	if r := endGates(); r.failed != nil {
		t.Errorf("gate -w failed: %v", r.failed)
	}
	f.AddGate(t, "short", "cart", nil)
	gates, endGates = begin(t, config, "Gate short", "gate", "gate/short", "-n", "shop", "-w")
	lists, endList = begin(t, config, "90 % cart-00001", "list", "-n", "shop", "-w")
	if err := f.Events.CanaryGates(fleet.Shop).Delete(t.Context(), "short", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gates.waitFor(t, `there is no CanaryGate "short"`)
	for _, percent := range []int64{20, 30, 10} {
		f.split(t, 100-percent, percent)
		lists.waitFor(t, fmt.Sprintf("%d %% cart-00001", 100-percent))
		time.Sleep(time.Second)
	}
	endList()
	if r := endGates(); r.failed != nil || strings.Count(gates.text.String(), "there is no") != 1 {
		t.Errorf("gate -w of what was deleted: %v\n%s", r.failed, gates.text.String())
	}
	f.label(t, map[string]string{"team": "a"})
	lines, end := begin(t, config, "watching all namespaces", "watch", "-A", "-l", "team=a")
	f.judge(t, "cart-00003", verdict.Running, "InsufficientSample")
	lines.waitFor(t, "shop/cart  gate cart-gate  cart-00003: Running (InsufficientSample)")
	f.label(t, nil)
	f.judge(t, "cart-00003", verdict.Running)
	if r := end(); r.failed != nil || strings.Contains(lines.text.String(), "cart-00003: Running\n") {
		t.Errorf("watch -l: %v\n%s", r.failed, lines.text.String())
	}
}

// next ends a run of gate cart-gate and begins one on another canary, at once.
func (f *fleetOf) next(t *testing.T, canary string, v verdict.Verdict, then string) {
	t.Helper()
	gate := fleet.Must[*v1alpha1.CanaryGate](t)(f.Events.CanaryGates(fleet.Shop).Get(t.Context(), "cart-gate", metav1.GetOptions{}))
	run := gate.Status.Latest.GateRunSummary
	run.ID, run.Canary, run.Verdict, run.Reasons = "on-"+canary, canary, v, nil
	gate.Status.History = append([]v1alpha1.GatePastRun{{GateRunSummary: run, CompletionTime: metav1.NewTime(noon)}}, gate.Status.History...)
	gate.Status.Latest.ID, gate.Status.Latest.Canary, gate.Status.Latest.Verdict, gate.Status.Latest.Reasons = "on-"+then, then, verdict.Running, nil
	fleet.Must[*v1alpha1.CanaryGate](t)(f.Events.CanaryGates(fleet.Shop).UpdateStatus(t.Context(), gate, metav1.UpdateOptions{}))
}

// wait waits for verdicts.
func (f *fleetOf) wait(t *testing.T, config string) {
	f.judge(t, "cart-00002", verdict.Running, "InsufficientSample")
	for _, c := range []struct {
		name, args string
		then       func()
		code       int
		said       string
	}{
		{"passes", "", func() { f.judge(t, "cart-00002", verdict.Pass, "NonInferior") }, 0, "cart-00002: Pass (NonInferior)\n"},
		{"has passed", "", nil, 0, "cart-00002: Pass (NonInferior)\n"},
		{"has not failed", "--for=verdict=fail,Error", nil, 1, ""},
		{"another canary fails", "--canary cart-00003", func() { f.judge(t, "cart-00003", verdict.Fail, "RelativeRegression") }, 1, "no run on cart-00003 yet; the newest one is on cart-00002\n"},
		{"any verdict", "--for=verdict", nil, 0, "cart-00003: Fail (RelativeRegression)\n"},
		{"is superseded, as wished", "--for=verdict=Superseded", nil, 0, "cart-00003: Superseded (SplitChanged)\n"},
		{"is superseded, and the next one passes", "", func() {
			f.judge(t, "cart-00004", verdict.Pass)
		}, 0, "cart-00003: Superseded (SplitChanged)\n"},
		{"ends before the next look", "--canary cart-00005", func() { f.next(t, "cart-00005", verdict.Pass, "cart-00006") }, 0, "cart-00005: Pass\n"},
		{"ends before the next look, without a name", "--for=verdict=Fail", func() { f.next(t, "cart-00006", verdict.Fail, "cart-00007") }, 0, "cart-00006: Fail\n"},
		{"has ended some time ago", "--canary cart-00005 --timeout 1s", nil, 3, "no run on cart-00005 yet"},
		{"takes too long", "--canary cart-00009 --timeout 5s", nil, 3, "no run on cart-00009 yet"},
	} {
		if strings.Contains(c.name, "superseded") {
			f.judge(t, "cart-00003", verdict.Superseded, "SplitChanged")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		lines := &shared{}
		done := make(chan result, 1)
		go func() {
			done <- runTo(ctx, lines, config, append([]string{"gate", "wait", "cart-gate", "-n", "shop"}, strings.Fields(c.args)...)...)
		}()
		if c.then != nil {
			lines.waitFor(t, "gate cart-gate")
			c.then()
		}
		r := <-done
		cancel()
		if code := command.Code(r.failed); code != c.code || !strings.Contains(lines.text.String(), c.said) {
			t.Errorf("%s: code %d, want %d: %v\n%s", c.name, code, c.code, r.failed, lines.text.String())
		}
	}
	if got := run(t, config, "", "gate", "wait", "nope", "-n", "shop"); command.Code(got.failed) != 1 {
		t.Errorf("a gate that does not exist: code %d, %v", command.Code(got.failed), got.failed)
	}
	if got := run(t, config, "", "gate", "wait", "cart-gate", "--server", "https://127.0.0.1:1"); command.Code(got.failed) != 3 {
		t.Errorf("no API server: code %d, %v", command.Code(got.failed), got.failed)
	}
}
