// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/serving/pkg/apis/autoscaling"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// contested is a release that each contestant judges, on a Service of its own. What a build does to a request depends
// on the request's id, and the ids are the same each time.
type contested struct {
	name string
	// good says that it should be kept.
	good bool
	// old and canary are the faults of the two builds, as shares.
	old, canary map[string]string
	// rate is how many requests a second come; 0: the usual number.
	rate int
	// outage takes away for half a minute what all requests depend on, half a minute after the canary's first one.
	outage bool
	// sharded is handled by another pod than the one where it enters, as often as not.
	sharded bool
}

func fails(share string) map[string]string { return map[string]string{"ERROR_RATE": share} }

var releases = []contested{
	{name: "healthy, 0 %", good: true},
	{name: "healthy, 0.1 %", good: true, old: fails("0.001"), canary: fails("0.001")},
	{name: "healthy, 1 %", good: true, old: fails("0.01"), canary: fails("0.01")},
	{name: "errors, 0.1 → 5 %", old: fails("0.001"), canary: fails("0.05")},
	{name: "errors, 1 → 5 %", old: fails("0.01"), canary: fails("0.05")},
	{name: "errors, 1 → 2 %", old: fails("0.01"), canary: fails("0.02")},
	{name: "a tenth takes a second", canary: map[string]string{"SLOW_RATE": "0.1"}},
	{name: "404 to all", canary: map[string]string{"MISSING_RATE": "1"}},
	{name: "one request a second, healthy", good: true, old: fails("0.001"), canary: fails("0.001"), rate: 1},
	{name: "one in fifty hangs", canary: map[string]string{"HANG_RATE": "0.02"}},
	{name: "what both need is away for 30 s", good: true, old: fails("0.001"), canary: fails("0.001"), outage: true},
	{name: "sharded, 0.1 → 5 % of what it handles", old: fails("0.001"), canary: fails("0.05"), sharded: true},
	{name: "sharded, 5 → 0.1 % of what it handles", good: true, old: fails("0.05"), canary: fails("0.001"), sharded: true},
}

// contestant decides on a release.
type contestant struct {
	name string
	// prepare is called while the old build has all traffic.
	prepare func(s *scene, service string)
	// moves says that it moves the traffic itself. Otherwise, the canary gets a share that stays.
	moves bool
	// decided returns what it has decided, and why; "" if it has not.
	decided func(ctx context.Context, s *scene, service string) (decision, why string, err error)
}

// What becomes of a release.
const (
	keeps, stops, undecided = "kept", "stopped", "undecided"
)

const (
	// settles is how long the old build has traffic before the release.
	settles = 2 * time.Minute
	// share is a constant canary's percentage of the traffic: the mean of what it has in an analysis of Flagger that goes
	// well.
	share = 28
	// tooMany is the part of requests without an answer above which a release is not what it should be.
	tooMany = 0.002
	// longest is how long a contestant may take. A gate takes 30 minutes at most.
	longest = 31 * time.Minute
)

// contestants are Flagger and the gate with its defaults. Each judges by what the cluster has: with Serving's own
// metrics, since those that Flagger's built-in checks ask for come from Envoy.
var contestants = []contestant{
	tutorial.contestant("Flagger, as in its tutorial"),
	tuned.contestant("Flagger, tuned"),
	{name: "gate", prepare: (*scene).watchesApp, decided: gateDecided},
}

// TestRivals has real Flagger and the gate judge the same releases. It proves nothing: it writes the table of
// docs/lab/compare.md.
func TestRivals(t *testing.T) {
	if os.Getenv("E2E_RIVALS") == "" || suite.guest || !suite.Own() {
		t.Skip("it takes an hour and more, and needs the cluster made by test/cluster: make compare")
	}
	stop, err := suite.RunFlagger(t.Context(), filepath.Dir(os.Getenv("E2E_RIVALS")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	withInjector(t)
	var results scores
	t.Cleanup(func() {
		table := results.table()
		t.Logf("\n%s", table)
		if err := os.WriteFile(os.Getenv("E2E_RIVALS"), []byte(table), 0o600); err != nil { //nolint:gosec // what the developer names
			t.Error(err)
		}
	})
	for _, r := range releases {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range contestants {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					takeSlot(t)
					s := emptyScene(t)
					said := s.judgedBy(c, r)
					results.add(r, c, said)
				})
			}
		})
	}
}

// judgedBy plays a release, and returns what a contestant makes of it.
func (s *scene) judgedBy(c contestant, r contested) string {
	s.Helper()
	ctx := s.Context()
	service := s.old(r)
	first, second := kit.RevisionName(service, 1), kit.RevisionName(service, 2)
	crowd := s.crowd(r, service)
	defer crowd.leave()
	c.prepare(s, service)
	time.Sleep(settles)
	s.must(suite.Services.Update(ctx, s.ns, service, func(svc *servingv1.Service) {
		setFaults(svc, r, r.canary)
		if !c.moves {
			kit.SetTraffic(svc, kit.Share{Revision: first, Percent: 100})
		}
	}))
	_, err := suite.Services.Wait(ctx, s.ns, service, second)
	s.must(err)
	if !c.moves {
		s.must(suite.Services.PatchTraffic(ctx, s.ns, service,
			fmt.Sprintf(`[{"revisionName":%q,"percent":%d},{"revisionName":%q,"percent":%d}]`, first, 100-share, second, share)))
	}
	var began time.Time
	s.must(kit.Wait(ctx, 5*time.Minute, "the canary's first answer", func(context.Context) error {
		if began = crowd.firstOf(second); began.IsZero() {
			return kit.NotYet("what was answered: %s", crowd)
		}
		return nil
	}))
	crowd.suffer(began)
	decision, why := undecided, ""
	err = kit.Wait(ctx, longest, "a decision", func(ctx context.Context) error {
		time.Sleep(time.Second) // a decision is a matter of minutes, and the machine has better things to do
		said, because, err := c.decided(ctx, s, service)
		if why = because; err != nil {
			return err
		}
		if decision = said; said == "" {
			decision = undecided
			return kit.NotYet("%s", because)
		}
		return nil
	})
	if err != nil {
		s.Logf("no decision: %v", err)
	}
	took := time.Since(began)
	s.Logf("%s; %s: %s after %s, %s; what was answered: %s", r.name, c.name, decision, took, why, crowd)
	if c.name == contestants[0].name {
		s.Logf("by the rules of \"kubectl cdevents compare\": %s", s.byItsRules(second, began))
	}
	if part := crowd.unanswered(); part > tooMany && r.canary["HANG_RATE"] == "" {
		s.Errorf("%.1f %% of the requests had no answer: the machine was too busy to compare", 100*part)
		return "not valid"
	}
	return fmt.Sprintf("%s, %s", decision, took.Round(time.Second))
}

// old deploys the release's old build, and returns the name of its Service.
func (s *scene) old(r contested) string {
	s.Helper()
	ctx := s.Context()
	if r.sharded {
		app := s.plain()
		app.Change = func(svc *servingv1.Service) { setFaults(svc, r, r.old) }
		s.must(suite.Carts.Deploy(ctx, app))
		return "cart"
	}
	svc := kit.App(s.ns, "app", suite.app, "")
	two := map[string]string{autoscaling.MinScaleAnnotationKey: "2", autoscaling.MaxScaleAnnotationKey: "2"}
	svc.Spec.Template.Annotations = two
	setFaults(svc, r, r.old)
	s.must(suite.Services.Create(ctx, svc))
	_, err := suite.Services.Wait(ctx, s.ns, "app", kit.RevisionName("app", 1))
	s.must(err)
	return "app"
}

// setFaults makes a build of faults.
func setFaults(svc *servingv1.Service, r contested, faults map[string]string) {
	// Two builds differ, even if both are healthy.
	env := map[string]string{"VERSION": svc.ResourceVersion}
	maps.Copy(env, faults)
	if r.sharded {
		env["FAIL_RATE"] = env["ERROR_RATE"]
	}
	container := &svc.Spec.Template.Spec.Containers[0]
	container.Env = nil
	for _, name := range slices.Sorted(maps.Keys(env)) {
		container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: env[name]})
	}
	timeout := int64(30)
	svc.Spec.Template.Spec.TimeoutSeconds = &timeout
}

// watchesApp creates a gate with all defaults.
func (s *scene) watchesApp(service string) {
	s.Helper()
	gate := &v1alpha1.CanaryGate{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: service},
		Spec:       v1alpha1.CanaryGateSpec{Service: service, Watch: true},
	}
	_, err := suite.Ours.CanaryGates(s.ns).Create(s.Context(), gate, metav1.CreateOptions{})
	s.must(err)
}

func gateDecided(ctx context.Context, s *scene, service string) (decision, why string, err error) {
	gate, err := suite.Ours.CanaryGates(s.ns).Get(ctx, service, metav1.GetOptions{})
	if err != nil {
		return "", "", fmt.Errorf("reading the gate: %w", err)
	}
	run := gate.Status.Run
	if run == nil || run.CompletionTime == nil {
		return "", compact(gate.Status.Latest), nil
	}
	why = fmt.Sprintf("%s %v: %s", run.Verdict, run.Reasons, run.Message)
	switch run.Verdict { //nolint:exhaustive // no others decide
	case verdict.Pass, verdict.Warn:
		return keeps, why, nil
	case verdict.Fail:
		return stops, why, nil
	}
	return undecided, why, nil
}

// scores are what the contestants have made of the releases.
type scores struct {
	mu   sync.Mutex
	said map[string]string
}

func (s *scores) add(r contested, c contestant, said string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.said == nil {
		s.said = map[string]string{}
	}
	if right := map[bool]string{true: keeps, false: stops}[r.good]; !strings.HasPrefix(said, right) {
		said = "**" + said + "**"
	}
	s.said[r.name+c.name] = said
}

// table has a row for each release that was played. What is wrong is bold.
func (s *scores) table() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	b.WriteString("| release | should be |")
	for _, c := range contestants {
		fmt.Fprintf(&b, " %s |", c.name)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(contestants)) + "\n")
	for _, r := range releases {
		row, played := fmt.Sprintf("| %s | %s |", r.name, map[bool]string{true: keeps, false: stops}[r.good]), false
		for _, c := range contestants {
			said, known := s.said[r.name+c.name]
			played = played || known
			row += " " + said + " |"
		}
		if played {
			b.WriteString(row + "\n")
		}
	}
	return b.String()
}
