// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/dashboards"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// watched is a scene in which Prometheus evaluates the shipped alerts, sixty times as fast.
type watched struct {
	*scene
	// programs is a folder with the plugin of kubectl.
	programs string
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	onlyInFull(t)
	if suite.guest || !suite.Own() {
		t.Skip("it needs the controller and the Prometheus of the cluster made by test/cluster")
	}
	w := &watched{scene: newScene(t), programs: t.TempDir()}
	w.must(suite.Plugin(t.Context(), w.programs))
	unload, err := suite.Prometheus.LoadRules(t.Context(), hurried(t, string(dashboards.Rules)))
	if unload != nil {
		t.Cleanup(func() { w.must(unload(context.WithoutCancel(t.Context()))) })
	}
	w.must(err)
	return w
}

// in is the same scene for a subtest.
func (w *watched) in(t *testing.T) *watched {
	s := *w.scene
	s.T = t
	return &watched{scene: &s, programs: w.programs}
}

var (
	duration  = regexp.MustCompile(`(for: |\[|offset )(\d+)([mh])`)
	threshold = regexp.MustCompile(`> (\d{3,})\b`)
)

// hurried makes minutes of rules seconds. A range needs several scrapes, so it has 30 s at least.
func hurried(t *testing.T, rules string) string {
	t.Helper()
	n := 0
	out := duration.ReplaceAllStringFunc(rules, func(found string) string {
		n++
		m := duration.FindStringSubmatch(found)
		seconds, _ := strconv.Atoi(m[2]) // it matched
		if m[3] == "h" {
			seconds *= 60
		}
		least := 30
		if m[1] == "for: " {
			least = 5
		}
		return fmt.Sprintf("%s%ds", m[1], max(seconds, least))
	})
	out = threshold.ReplaceAllStringFunc(out, func(found string) string {
		n++
		seconds, _ := strconv.Atoi(strings.TrimPrefix(found, "> ")) // it matched
		return fmt.Sprintf("> %d", seconds/60)
	})
	if n < 15 {
		t.Fatalf("only %d durations of the rules are shortened:\n%s", n, out)
	}
	return out
}

// active returns the alerts of a name that have these labels.
func (w *watched) active(ctx context.Context, name string, labels map[string]string) ([]kit.Alert, error) {
	all, err := suite.Prometheus.Alerts(ctx)
	return slices.DeleteFunc(all, func(a kit.Alert) bool {
		if a.Labels["alertname"] != name {
			return true
		}
		for key, value := range labels {
			if a.Labels[key] != value {
				return true
			}
		}
		return false
	}), err
}

// fires waits until an alert with exactly these labels fires, besides its name and severity.
func (w *watched) fires(name string, labels map[string]string) {
	w.Helper()
	began := time.Now()
	w.must(kit.Wait(w.Context(), 4*time.Minute, name+" to fire", func(ctx context.Context) error {
		found, err := w.active(ctx, name, labels)
		if err != nil {
			return err
		}
		for _, a := range found {
			own := maps.Clone(a.Labels)
			delete(own, "alertname")
			delete(own, "severity")
			if a.State == "firing" && maps.Equal(own, labels) {
				w.Logf("%s fires after %s, for %v: %s", name, took(began), own, a.Annotations["summary"])
				return nil
			}
		}
		return kit.NotYet("alerts: %s", compact(found))
	}))
}

// resolves waits until no alert of that name has these labels.
func (w *watched) resolves(name string, labels map[string]string) {
	w.Helper()
	began := time.Now()
	w.must(kit.Wait(w.Context(), 4*time.Minute, name+" to end", func(ctx context.Context) error {
		found, err := w.active(ctx, name, labels)
		if err == nil && len(found) > 0 {
			return kit.NotYet("alerts: %s", compact(found))
		}
		return err
	}))
	w.Logf("%s has ended after %s", name, took(began))
}

// looks runs the commands of an alert's runbook, which must print each of these words.
func (w *watched) looks(alert, name string, want ...string) {
	w.Helper()
	book, err := suite.Runbook(alert)
	w.must(err)
	var all strings.Builder
	for _, command := range book.Look {
		out, err := w.shell(w.Context(), command, name)
		fmt.Fprintf(&all, "$ %s\n%s\n", command, out)
		// It says "no" by its exit status.
		if err != nil && !strings.Contains(command, "auth can-i") {
			w.Errorf("the runbook of %s: %v", alert, err)
		}
	}
	w.Log(all.String())
	for _, word := range want {
		if !strings.Contains(all.String(), word) {
			w.Errorf("the commands in the runbook of %s do not show %q", alert, word)
		}
	}
}

// does runs the one command in the sentences of an alert's runbook that contains some words.
func (w *watched) does(alert, name, words string) {
	w.Helper()
	book, err := suite.Runbook(alert)
	w.must(err)
	found := slices.DeleteFunc(book.Do, func(command string) bool { return !strings.Contains(command, words) })
	if len(found) != 1 {
		w.Fatalf("the runbook of %s has %d commands with %q: %q", alert, len(found), words, book.Do)
	}
	out, err := w.shell(w.Context(), found[0], name)
	w.Logf("$ %s\n%s", found[0], out)
	w.must(err)
}

func (w *watched) shell(ctx context.Context, command, name string) (string, error) {
	return suite.Shell(ctx, w.programs, command, map[string]string{"NS": w.ns, "NAME": name})
}

// forbids takes a right to a resource from one of the roles in the controller's namespace. It returns a function that
// applies the manifest again, as an operator does.
func (w *watched) forbids(role, resource, verb, manifest string) (allow func()) {
	w.Helper()
	api := suite.Kube.RbacV1().Roles(kit.Namespace)
	r, err := api.Get(w.Context(), role, metav1.GetOptions{})
	w.must(err)
	for i := range r.Rules {
		if slices.Contains(r.Rules[i].Resources, resource) {
			r.Rules[i].Verbs = slices.DeleteFunc(r.Rules[i].Verbs, func(v string) bool { return v == verb })
		}
	}
	r.Rules = slices.DeleteFunc(r.Rules, func(r rbacv1.PolicyRule) bool { return len(r.Verbs) == 0 })
	allow = func() {
		w.Helper()
		_, err := suite.Shell(context.WithoutCancel(w.Context()), w.programs, "kubectl apply -f "+suite.Path(manifest), nil)
		w.must(err)
	}
	w.Cleanup(allow)
	_, err = api.Update(w.Context(), r, metav1.UpdateOptions{})
	w.must(err)
	return allow
}

const webhooks = "app.kubernetes.io/component=webhook"

// withoutWebhook ends the webhook, and returns a function that starts it again.
func (w *watched) withoutWebhook() (start func()) {
	w.Helper()
	scale := func(ctx context.Context, replicas int) error {
		patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
		_, err := suite.Kube.AppsV1().Deployments(kit.Namespace).Patch(ctx, "webhook", types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	start = func() {
		w.Helper()
		ctx := context.WithoutCancel(w.Context())
		w.must(scale(ctx, 2))
		w.must(suite.Controller.WaitWebhook(ctx))
	}
	w.Cleanup(start)
	pods, err := suite.Kube.CoreV1().Pods(kit.Namespace).List(w.Context(), metav1.ListOptions{LabelSelector: webhooks})
	w.must(err)
	w.must(scale(w.Context(), 0))
	for i := range pods.Items {
		// Asked to end, it answers as long as it is asked, for a minute at most.
		w.must(suite.Workloads.Crash(w.Context(), &pods.Items[i]))
	}
	w.must(suite.Workloads.WaitGone(w.Context(), kit.Namespace, webhooks))
	return start
}
