// SPDX-License-Identifier: Apache-2.0

package awake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	"knative.dev/serving/pkg/client/clientset/versioned"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/environment"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/customrun"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
)

// newFor is how long a Revision counts as new that gets no traffic. A longer past is not kept of the others, with which
// it is compared once it does.
const newFor = time.Hour

// Rule says what there is to measure, as the API server has it now. Each reason is short, and names an object.
type Rule struct {
	ours      *client.Clientset
	serving   versioned.Interface
	discovery discovery.DiscoveryInterface
	// objects reads CustomRuns, and metadata everything of which the metadata suffice.
	objects  dynamic.Interface
	metadata metadata.Interface
	// system is the controller's namespace.
	system string
	// environments are the kinds that the operator chose by name.
	environments func() []schema.GroupKind
	now          func() time.Time
}

// NewRule returns a rule for a cluster, with the controller's namespace and the kinds of environments that the operator
// chose by name.
func NewRule(config *rest.Config, system string, environments func() []schema.GroupKind) (*Rule, error) {
	r := &Rule{system: system, environments: environments, now: time.Now}
	var errs [5]error
	r.ours, errs[0] = client.New(config)
	r.serving, errs[1] = versioned.NewForConfig(config)
	r.discovery, errs[2] = discovery.NewDiscoveryClientForConfig(config)
	r.objects, errs[3] = dynamic.NewForConfig(config)
	r.metadata, errs[4] = metadata.NewForConfig(config)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("making clients to look for what is to be measured: %w", err)
	}
	return r, nil
}

// Everything returns all reasons, but for the stateful clusters that Services declare.
func (r *Rule) Everything(ctx context.Context) ([]string, error) {
	kinds, err := environment.Installed(ctx, r.discovery, r.metadata, r.environments())
	var why []string
	for _, kind := range kinds {
		why = append(why, "there may be environments of kind "+kind)
	}
	errs := []error{err}
	errs = append(errs, absent(each(ctx, r.runs().List, func(o *metav1.PartialObjectMetadata) {
		why = append(why, inProgress(o)...)
	})))
	errs = append(errs, absent(each(ctx, r.ours.ShardPlacements(r.system).List, func(p *v1alpha1.ShardPlacement) {
		why = append(why, placed(p))
	})))
	runs := r.objects.Resource(customrun.Resource)
	errs = append(errs, optional(each(ctx, runs.List, func(o *unstructured.Unstructured) {
		why = append(why, unfinished(o)...)
	})))
	gates, err := r.gates(ctx, metav1.NamespaceAll)
	errs = append(errs, err)
	looked := map[types.NamespacedName]bool{}
	for i := range gates {
		of := types.NamespacedName{Namespace: gates[i].Namespace, Name: gates[i].Judged()}
		if looked[of] && !gates[i].Status.Run.InProgress() {
			continue
		}
		looked[of] = true
		reasons, err := r.gate(ctx, &gates[i], gates)
		why, errs = append(why, reasons...), append(errs, err)
	}
	slices.Sort(why)
	why = slices.CompactFunc(why, func(a, b string) bool { // the record of a gate's run adds nothing to it
		return strings.TrimSuffix(a, justEnded) == strings.TrimSuffix(b, justEnded)
	})
	return why, errors.Join(errs...)
}

// Service returns the reasons that a Service gives, but for that it declares a stateful cluster.
func (r *Rule) Service(ctx context.Context, of types.NamespacedName) ([]string, error) {
	gates, err := r.gates(ctx, of.Namespace)
	if err != nil {
		return nil, err
	}
	var judging *v1alpha1.CanaryGate
	for i := range gates {
		if gates[i].Judged() == of.Name && (judging == nil || gates[i].Status.Run.InProgress()) {
			judging = &gates[i]
		}
	}
	if judging == nil {
		return nil, nil
	}
	return r.gate(ctx, judging, gates)
}

// Object returns the reasons that an object of another kind gives; false if none of its kind ever gives one.
func (r *Rule) Object(ctx context.Context, kind schema.GroupKind, of types.NamespacedName) (why []string, is bool,
	err error,
) {
	get := metav1.GetOptions{}
	switch kind {
	case v1alpha1.GateKind.GroupKind():
		gates, err := r.gates(ctx, of.Namespace)
		if err != nil {
			return nil, true, err
		}
		if i := slices.IndexFunc(gates, func(g v1alpha1.CanaryGate) bool { return g.Name == of.Name }); i >= 0 {
			why, err = r.gate(ctx, &gates[i], gates)
		}
		return why, true, err
	case v1alpha1.GateRunKind.GroupKind():
		o, err := r.runs().Get(ctx, of.Name, get)
		if err != nil || of.Namespace != r.system {
			return nil, true, absent(err)
		}
		return inProgress(o), true, nil
	case v1alpha1.PlacementKind.GroupKind():
		p, err := r.ours.ShardPlacements(r.system).Get(ctx, of.Name, get)
		if err != nil || of.Namespace != r.system {
			return nil, true, absent(err)
		}
		return []string{placed(p)}, true, nil
	case customRun:
		o, err := r.objects.Resource(customrun.Resource).Namespace(of.Namespace).Get(ctx, of.Name, get)
		if err != nil {
			return nil, true, optional(err)
		}
		return unfinished(o), true, nil
	}
	return nil, false, nil
}

var customRun = schema.GroupKind{Group: customrun.Resource.Group, Kind: "CustomRun"}

// runs are the CanaryGateRuns. Their content may be a megabyte each.
func (r *Rule) runs() metadata.ResourceInterface {
	return r.metadata.Resource(v1alpha1.GateRunResource).Namespace(r.system)
}

// justEnded is what the reason of a record adds to that of its run.
const justEnded = ", or one that has just ended"

// inProgress is the reason that a CanaryGateRun gives, unless it only keeps what a finished run measured. That of a run
// that has just ended stays until the journal must have the verdict.
func inProgress(o *metav1.PartialObjectMetadata) []string {
	if _, finished := o.Labels[v1alpha1.FinishedRunLabel]; finished {
		return nil
	}
	of := v1alpha1.RunOwner(o)
	return []string{fmt.Sprintf("%s %s/%s has a run in progress%s", of.Kind, of.Namespace, of.Name, justEnded)}
}

// gate returns the reasons that a gate gives: a run in progress, or its Service. It is one of all gates of its
// namespace.
func (r *Rule) gate(ctx context.Context, g *v1alpha1.CanaryGate, all []v1alpha1.CanaryGate) ([]string, error) {
	if g.Status.Run.InProgress() {
		return []string{fmt.Sprintf("%s %s/%s has a run in progress", v1alpha1.GateKind.Kind, g.Namespace, g.Name)}, nil
	}
	return r.judged(ctx, types.NamespacedName{Namespace: g.Namespace, Name: g.Judged()}, g.Name, all)
}

// placed is the reason that a ShardPlacement gives: its members ask for it as long as they run.
func placed(p *v1alpha1.ShardPlacement) string {
	return fmt.Sprintf("the shards of Service %s/%s are placed", p.Spec.Namespace, p.Spec.Service)
}

// unfinished is the reason that a CustomRun gives.
func unfinished(o *unstructured.Unstructured) []string {
	if !customrun.Ours(o) || o.GetDeletionTimestamp() != nil {
		return nil
	}
	if run, err := customrun.Read(o); err != nil || run.Done() {
		return nil // the controller never runs a gate for one that cannot be read
	}
	return []string{"CustomRun " + o.GetNamespace() + "/" + o.GetName() + " is not finished"}
}

// gates lists those of a namespace, or of all.
func (r *Rule) gates(ctx context.Context, namespace string) ([]v1alpha1.CanaryGate, error) {
	list, err := r.ours.CanaryGates(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, absent(fmt.Errorf("listing CanaryGates: %w", err))
	}
	return list.Items, nil
}

// judged returns the reasons that a Service gives which a gate names: an effective split, or that its newest Revision
// is new, has not all of the traffic, and was not judged yet. The first Revision of a Service has nothing to be
// compared with.
func (r *Rule) judged(ctx context.Context, of types.NamespacedName, gate string, all []v1alpha1.CanaryGate) ([]string,
	error,
) {
	selector, err := labels.ValidatedSelectorFromSet(labels.Set{serving.ServiceLabelKey: of.Name})
	if err != nil || of.Name == "" {
		return nil, nil //nolint:nilerr // no Service can have this name
	}
	names := fmt.Sprintf("CanaryGate %s/%s names Service %s", of.Namespace, gate, of)
	var now lifecycle.Route
	switch route, err := r.serving.ServingV1().Routes(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{}); {
	case err == nil:
		now = service.RouteOf(route)
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading Route %s: %w", of, err)
	}
	if now.Divided() {
		return []string{names + ", whose traffic is split"}, nil
	}
	revisions, err := r.metadata.Resource(servingv1.SchemeGroupVersion.WithResource("revisions")).Namespace(of.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, absent(fmt.Errorf("listing the Revisions of Service %s: %w", of, err))
	}
	if len(revisions.Items) < 2 {
		return nil, nil
	}
	newest := slices.MaxFunc(revisions.Items, func(a, b metav1.PartialObjectMetadata) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	if r.now().Sub(newest.CreationTimestamp.Time) >= newFor || now.Traffic.Percent(newest.Name) == 100 {
		return nil, nil
	}
	if slices.ContainsFunc(all, func(g v1alpha1.CanaryGate) bool { return hasJudged(&g, of, &newest) }) {
		return nil, nil
	}
	return []string{names + ", whose Revision " + newest.Name + " is new"}, nil
}

// hasJudged reports whether the last run of a gate has ended with a verdict about a Revision of a Service that stands.
// If the Revision gets traffic again, the split is a reason.
func hasJudged(g *v1alpha1.CanaryGate, of types.NamespacedName, revision *metav1.PartialObjectMetadata) bool {
	latest := g.Status.Latest
	return latest != nil && g.Namespace == of.Namespace && latest.Canary == revision.Name && latest.Verdict.Final() &&
		!latest.StartTime.Before(&revision.CreationTimestamp) // else it was of one with the same name
}

// each calls a function for each object of a list.
func each[L, O runtime.Object](ctx context.Context, list func(context.Context, metav1.ListOptions) (L, error),
	f func(O),
) error {
	pages := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		return list(ctx, opts)
	})
	return pages.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error { //nolint:wrapcheck // it names the kind
		if o, is := o.(O); is {
			f(o)
		}
		return nil
	})
}

// absent drops the error that something does not exist.
func absent(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// optional also drops the error that something may not be read. The right to read CustomRuns is optional, and without
// it, the controller runs no gates for them either.
func optional(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return absent(err)
}
