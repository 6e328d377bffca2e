// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/plural"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/advice"
	"github.com/knative-cdevents/knative-cdevents/cli/reader"
	"github.com/knative-cdevents/knative-cdevents/cli/released"
)

// controller looks whether the controller runs, or sleeps as it may.
func (c *Checker) controller(ctx context.Context) Result {
	const name = "Controller"
	d, err := c.Deployment(ctx, c.System, "controller")
	if err != nil {
		return unseen(name, err)
	}
	if d == nil {
		return c.absent(name, "controller")
	}
	skew, supported := released.Skew(released.Current(), orDevel(d.Labels[reader.VersionLabel]))
	if why, asleep := strings.CutPrefix(d.Annotations[v1alpha1.AwakeAnnotation], "asleep: "); asleep &&
		d.Spec.Replicas != nil && *d.Spec.Replicas == 0 {
		return fine(name, "it sleeps, as the serverless mode lets it: %s", why)
	}
	if r, down := c.down(name, d); down {
		return r
	}
	r := fine(name, "%s, of version %s", readiness(d), orDevel(d.Labels[reader.VersionLabel]))
	switch {
	case !supported:
		r.State, r.Do = Warning, skew
	case d.Status.ReadyReplicas < replicas(d):
		r.State, r.Do = Warning, c.look("controller")
	}
	return r
}

// down is the result for a Deployment without a ready replica.
func (c *Checker) down(name string, d *appsv1.Deployment) (Result, bool) {
	if d.Status.ReadyReplicas > 0 {
		return Result{}, false
	}
	return Result{
		Check: name, State: Failure, Do: c.look(d.Name),
		What: fmt.Sprintf("no replica is ready; there should be %d", replicas(d)),
	}, true
}

func (c *Checker) absent(name, deployment string) Result {
	return Result{
		Check: name, State: Failure, What: fmt.Sprintf("there is no Deployment %s in namespace %s", deployment, c.System),
		Do: "Install the controller; if it is in another namespace, name that with --system-namespace. To find it: " +
			"kubectl get deployments -A -l app.kubernetes.io/name=knative-cdevents",
	}
}

func (c *Checker) look(component string) string {
	return fmt.Sprintf("Look at its pods: kubectl describe pods -n %s -l app.kubernetes.io/component=%s", c.System, component)
}

// readiness says how many replicas are ready.
func readiness(d *appsv1.Deployment) string {
	return fmt.Sprintf("%d of %s %s ready", d.Status.ReadyReplicas, plural.Of(replicas(d), "replica", "replicas"),
		plural.Word(d.Status.ReadyReplicas, "is", "are"))
}

func replicas(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

// webhook looks whether the webhook runs.
func (c *Checker) webhook(ctx context.Context) Result {
	const name = "Webhook"
	d, err := c.Deployment(ctx, c.System, "webhook")
	if err != nil {
		return unseen(name, err)
	}
	if d == nil {
		return c.absent(name, "webhook")
	}
	if r, down := c.down(name, d); down {
		return r
	}
	return fine(name, "%s", readiness(d))
}

// trial is a source that nothing but the webhook refuses: a schema cannot parse CESQL.
func trial(namespace string) *v1alpha1.CDEventSource {
	s := &v1alpha1.CDEventSource{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.SourceKind.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "check-"},
	}
	s.Spec.Sink.URI = apis.HTTP("example.com")
	s.Spec.Filters = []v1alpha1.Filter{{CESQL: "("}}
	return s
}

// refuses lets the API server try to create a wrong source: if the webhook answers, it is refused.
func (c *Checker) refuses(ctx context.Context) Result {
	const name = "Webhook answers"
	_, err := c.Create(ctx, v1alpha1.SourceResource, trial(c.tryIn()), true)
	switch {
	case err == nil:
		return Result{
			Check: name, State: Failure, What: "it does not check sources: the API server would store a wrong one (a dry run)",
			Do: "Apply the manifests of the webhook again: its ValidatingWebhookConfiguration has no effect",
		}
	case strings.Contains(err.Error(), "admission webhook") && strings.Contains(err.Error(), "spec.filters"):
		return fine(name, "it refused a wrong source, as it should (a dry run in namespace %s)", c.tryIn())
	case apierrors.IsForbidden(err):
		return Result{
			Check: name, State: Unknown,
			What: "you may not create cdeventsources in namespace " + c.tryIn() + ", so it was not tried",
		}
	case apierrors.IsNotFound(err):
		return Result{Check: name, State: Unknown, What: "there is no namespace " + c.tryIn() + " to try it in; choose one with -n"}
	}
	return Result{
		Check: name, State: Failure, What: "no source can be created: " + err.Error(),
		Do: c.look("webhook"),
	}
}

// right is something that a command needs.
type right struct {
	verb, group, resource string
	// forWhat says which commands need it.
	forWhat string
	// system: in the controller's namespace.
	system bool
	// optional: few users have it.
	optional bool
	remedy   string
}

const (
	viewRole   = "ask an operator for ClusterRole view in that namespace"
	editRole   = "ask an operator for ClusterRole edit in that namespace"
	ledgerRole = "ask an operator for ClusterRole knative-cdevents-ledger-view there"
)

var needed = []right{
	{"list", "serving.knative.dev", "services", "to see Services and their traffic", false, false, viewRole},
	{"list", v1alpha1.GroupName, "cdeventsources", "to see sources", false, false, viewRole},
	{"list", v1alpha1.GroupName, "canarygates", "to see gates", false, false, viewRole},
	{"watch", v1alpha1.GroupName, "canarygates", "for watch, dashboard, gate wait and -w", false, false, viewRole},
	{"create", v1alpha1.GroupName, "cdeventsources", "for create source", false, true, editRole},
	{"create", v1alpha1.GroupName, "canarygates", "for create gate", false, true, editRole},
	{"list", v1alpha1.GroupName, "cdeventsubjects", "for history, and to see what is pending", true, true, ledgerRole},
}

// rights asks what the user may do.
func (c *Checker) rights(ctx context.Context) []Result {
	const name = "Rights"
	var out []Result
	granted := 0
	for _, r := range needed {
		namespace, where := c.Namespace, "namespace "+c.Namespace
		if namespace == "" {
			where = "all namespaces"
		}
		if r.system {
			namespace, where = c.System, "namespace "+c.System
		}
		may, err := c.May(ctx, authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: r.verb, Group: r.group, Resource: r.resource,
		})
		if err != nil {
			return append(out, unseen(name, err))
		}
		if may {
			granted++
			continue
		}
		found := Result{
			Check: name, State: Failure, Do: "If you need it, " + r.remedy,
			What: fmt.Sprintf("you may not %s %s.%s in %s, which you need %s", r.verb, r.resource, r.group, where, r.forWhat),
		}
		if r.optional {
			found.State = Warning
		}
		out = append(out, found)
	}
	if len(out) == 0 {
		return []Result{fine(name, "you may do all %d things that the commands need", granted)}
	}
	return out
}

// sources says which sources do not deliver.
func (c *Checker) sources(ctx context.Context) []Result {
	const name = "Sinks"
	all, err := c.Sources(ctx, c.Namespace)
	if err != nil {
		return []Result{unseen(name, err)}
	}
	var out []Result
	clock := advice.Clock{Now: c.Now(), System: c.System}
	for i := range all {
		f := clock.Source(&all[i])
		if f.State == advice.Works {
			continue
		}
		state := Failure
		if f.State == advice.Waiting {
			state = Warning
		}
		what := fmt.Sprintf("%s/%s: %s", f.Namespace, f.Name, f.What)
		if f.Reason != "" {
			what += " (" + f.Reason + ")"
		}
		out = append(out, Result{Check: name, State: state, What: what, Do: f.Do})
	}
	switch {
	case len(all) == 0:
		return []Result{fine(name, "there are no sources to look at")}
	case len(out) == 0:
		return []Result{fine(name, "all are resolved, of %s", plural.Of(len(all), "source", "sources"))}
	}
	return out
}

// Clocks may differ by less than this without a warning, and by less than the second without a failure: leases are
// valid for 15 s, and tokens and certificates for minutes.
const (
	clockWarning = 2 * time.Second
	clockFailure = time.Minute
)

// clock compares the clock of this machine with the API server's, which only tells seconds.
func (c *Checker) clock(ctx context.Context) Result {
	const name = "Clock"
	before := c.Now()
	at, took, err := c.ServerTime(ctx)
	if err != nil {
		return unseen(name, err)
	}
	// The date was made at some time during the request, and was cut to a second.
	skew := before.Sub(at)
	switch {
	case skew > time.Second:
		skew -= time.Second
	case skew < -took:
		skew += took
	default:
		skew = 0
	}
	return ofClock(name, "this machine's clock", skew)
}

func ofClock(name, whose string, skew time.Duration) Result {
	size, direction := skew, "ahead of"
	if skew < 0 {
		size, direction = -skew, "behind"
	}
	if size < clockWarning {
		return fine(name, "%s and the API server's agree within %s", whose, clockWarning)
	}
	r := Result{
		Check: name, State: Warning,
		What: fmt.Sprintf("%s is %s %s the API server's", whose, size.Round(time.Second), direction),
		Do:   "Set the clocks, for example with NTP: ages and times are shown wrongly, and tokens may be refused",
	}
	if size >= clockFailure {
		r.State = Failure
	}
	return r
}

// leases looks whether a replica leads, and whether its clock agrees with the API server's. A controller that has just
// become ready has a moment to elect one.
func (c *Checker) leases(ctx context.Context) Result {
	for end := time.Now().Add(c.Election); ; {
		r, elects := c.leader(ctx)
		if !elects || time.Now().After(end) {
			return r
		}
		select {
		case <-ctx.Done():
			return r
		case <-time.After(time.Second):
		}
	}
}

// leader is what can be said about the leases now, and whether a replica is ready and none leads.
func (c *Checker) leader(ctx context.Context) (_ Result, elects bool) {
	const name = "Leader"
	all, err := c.Leases(ctx)
	if err != nil {
		return unseen(name, err), false
	}
	server, _, err := c.ServerTime(ctx)
	if err != nil {
		return unseen(name, err), false
	}
	led, holders := 0, map[string]bool{}
	for i := range all {
		l := &all[i].Spec
		if !strings.HasPrefix(all[i].Name, "controller.services.") || l.RenewTime == nil || l.LeaseDurationSeconds == nil ||
			l.HolderIdentity == nil || *l.HolderIdentity == "" {
			continue
		}
		age := server.Sub(l.RenewTime.Time)
		if age < -clockWarning {
			return ofClock(name, "the clock of "+holder(*l.HolderIdentity), -age), false
		}
		if age < 2*time.Duration(*l.LeaseDurationSeconds)*time.Second {
			led++
			holders[holder(*l.HolderIdentity)] = true
		}
	}
	if led == 0 {
		d, err := c.Deployment(ctx, c.System, "controller")
		if err == nil && d != nil && replicas(d) == 0 {
			return fine(name, "none is needed while the controller sleeps"), false
		}
		return Result{
			Check: name, State: Failure,
			What: "no replica of the controller renews a lease, so nothing is observed or sent; if they do, their clocks are behind",
			Do:   fmt.Sprintf("Look at the leases and at the log: kubectl get leases -n %s; kubectl logs -n %s deployment/controller", c.System, c.System),
		}, err == nil && d != nil && d.Status.ReadyReplicas > 0
	}
	return fine(name, "%s held, by %s; %s with the API server's", plural.Of(led, "lease is", "leases are"),
		plural.Of(len(holders), "replica", "replicas"), plural.Word(len(holders), "its clock agrees", "their clocks agree")), false
}

// holder returns the name of the pod.
func holder(identity string) string {
	pod, _, _ := strings.Cut(identity, "_")
	return pod
}
