// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/reconciler/settings"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source/valid"
)

// patience is how long an event may be pending without a known reason.
const patience = time.Minute

// computeStatus computes the whole status.
func (r *Reconciler) computeStatus(ctx context.Context, s *v1alpha1.CDEventSource) {
	conditions := s.GetConditionSet().Manage(s.GetStatus())
	conditions.InitializeConditions()
	r.resolve(ctx, s, conditions)
	r.valid(s, conditions)
	s.Status.CloudEventAttributes = r.attributes(s)
	r.authenticate(ctx, s, conditions)
	r.report(s, conditions)
	s.Status.ObservedGeneration = s.Generation
}

// attributes returns the attributes of all events that the source may send, before its
// filters. Other Knative sources list them too, and Eventing makes EventTypes of them.
func (r *Reconciler) attributes(s *v1alpha1.CDEventSource) []duckv1.CloudEventAttributes {
	types := cdevents.Types(s.Spec.Version())
	out := make([]duckv1.CloudEventAttributes, 0, len(types))
	for _, t := range types {
		out = append(out, duckv1.CloudEventAttributes{Type: t, Source: r.settings.ClusterURI()})
	}
	return out
}

// valid reports whether the spec is valid, and within the limit of its namespace.
func (r *Reconciler) valid(s *v1alpha1.CDEventSource, conditions apis.ConditionManager) {
	if p := r.checked.problems(s, r.system); p != nil {
		conditions.MarkFalse(v1alpha1.SourceConditionValid, p.Reason, "%s", p.Message)
		return
	}
	neighbours, err := r.lister.Namespaced(s.Namespace).List(labels.Everything())
	if err == nil { // from the cache
		err = valid.Among(neighbours, s, r.system)
	}
	if err != nil {
		mark(conditions, v1alpha1.SourceConditionValid, err)
		return
	}
	conditions.MarkTrue(v1alpha1.SourceConditionValid)
}

// resolve resolves both sinks. While the API server does not answer, it keeps addresses
// that were resolved for the same spec. A definite error drops them.
func (r *Reconciler) resolve(ctx context.Context, s *v1alpha1.CDEventSource, conditions apis.ConditionManager) {
	known := s.Status.ObservedGeneration == s.Generation
	look := r.sinks.look(types.NamespacedName{Namespace: s.Namespace, Name: s.Name})
	defer look.done()

	addr, err := r.find(ctx, look, s, valid.SinkField, &s.Spec.Sink)
	switch kept := known && s.Status.SinkURI != nil; {
	case err == nil:
		s.Status.SinkURI, s.Status.SinkCACerts, s.Status.SinkAudience = v1alpha1.Shown(addr.URL), addr.CACerts, addr.Audience
		conditions.MarkTrue(v1alpha1.SourceConditionSinkProvided)
	case !kept || !valid.Passing(err):
		s.Status.SinkURI, s.Status.SinkCACerts, s.Status.SinkAudience = nil, nil, nil
		mark(conditions, v1alpha1.SourceConditionSinkProvided, err)
	}

	if s.Spec.Delivery == nil || s.Spec.Delivery.DeadLetterSink == nil {
		s.Status.DeliveryStatus = eventingduckv1.DeliveryStatus{}
		conditions.MarkTrueWithReason(v1alpha1.SourceConditionDeadLetterSinkResolved, valid.NotConfigured,
			"The source has no dead letter sink")
		return
	}
	addr, err = r.find(ctx, look, s, valid.LetterField, s.Spec.Delivery.DeadLetterSink)
	switch kept := known && s.Status.DeadLetterSinkURI != nil; {
	case err == nil:
		s.Status.DeliveryStatus = eventingduckv1.NewDeliveryStatusFromAddressable(addr)
		s.Status.DeadLetterSinkURI = v1alpha1.Shown(addr.URL)
		conditions.MarkTrue(v1alpha1.SourceConditionDeadLetterSinkResolved)
	case !kept || !valid.Passing(err):
		s.Status.DeliveryStatus = eventingduckv1.DeliveryStatus{}
		mark(conditions, v1alpha1.SourceConditionDeadLetterSinkResolved, err)
	}
}

// find resolves a sink and checks that its host is allowed.
func (r *Reconciler) find(
	ctx context.Context, look *look, s *v1alpha1.CDEventSource, field string, d *duckv1.Destination,
) (*duckv1.Addressable, error) {
	if err := valid.Readable(s, field); err != nil {
		return nil, err
	}
	addr, err := look.destination(ctx, field, d)
	if err != nil {
		return nil, err
	}
	all, err := r.sinks.schemes.Hosts(addr.URL.URL())
	if err != nil {
		return nil, valid.Problemf(valid.InvalidURI, "%s cannot be used: %v", field, err)
	}
	for _, host := range all {
		if allowed := r.settings.SinkHosts(); !allowed.Empty() && !allowed.Allows(host) {
			return nil, valid.Problemf(valid.SinkNotAllowed, "%s is at host %q, to which events may not be sent; ask an "+
				"operator to add it to %s in ConfigMap %s of namespace %s, or use another sink",
				field, host, settings.SinkHostsKey, settings.Name, r.system)
		}
	}
	return addr, nil
}

// mark sets a condition to False for a definite problem, and to Unknown for a failed
// lookup.
func mark(conditions apis.ConditionManager, t apis.ConditionType, err error) {
	var p *valid.ProblemError
	switch {
	case !errors.As(err, &p):
		conditions.MarkUnknown(t, valid.LookupFailed, "%s", err)
	case p.Passing:
		conditions.MarkUnknown(t, p.Reason, "%s", p.Message)
	default:
		conditions.MarkFalse(t, p.Reason, "%s", p.Message)
	}
}

// report shows the state of the deliveries.
func (r *Reconciler) report(s *v1alpha1.CDEventSource, conditions apis.ConditionManager) {
	const delivering = v1alpha1.SourceConditionDelivering
	if r.deliveries == nil {
		return
	}
	pending, oldest, last, trouble := r.deliveries.SourceStatus(s.UID)
	s.Status.Pending = pending
	s.Status.OldestPending = v1alpha1.Micro(oldest)
	delivered(s, last)
	switch {
	case trouble != "":
		conditions.MarkFalse(delivering, valid.SinkFails, "%s", trouble)
	case pending > 0 && failsElsewhere(s, oldest):
		// Keep the condition that the other process set.
	case pending > 0 && r.now().Sub(oldest) > patience:
		conditions.MarkUnknown(delivering, valid.Waiting, "%s", fmt.Sprintf("Events have been waiting since %s; the "+
			"controller's logs say why",
			oldest.UTC().Format(time.RFC3339)))
	case s.Status.LastDelivery == nil:
		conditions.MarkUnknown(delivering, valid.NothingSentYet, "No event has been sent yet")
	default:
		conditions.MarkTrue(delivering)
	}
}

// reportOwn adds the results of this process's deliveries to a status that another process
// writes. Each process sends the events of the objects that it leads for.
func (r *Reconciler) reportOwn(s *v1alpha1.CDEventSource) {
	_, _, last, trouble := r.deliveries.SourceStatus(s.UID)
	delivered(s, last)
	if trouble != "" {
		manager := s.GetConditionSet().Manage(s.GetStatus())
		manager.MarkFalse(v1alpha1.SourceConditionDelivering, valid.SinkFails, "%s", trouble)
	}
}

// delivered advances the time of the last delivery. Another process may have set a
// later one.
func delivered(s *v1alpha1.CDEventSource, last time.Time) {
	if was := s.Status.LastDelivery; was == nil || was.Time.Before(last) {
		if at := v1alpha1.Micro(last); at != nil {
			s.Status.LastDelivery = at
		}
	}
}

// failsElsewhere reports whether another process saw the sink fail, the event that was
// pending then still is, and nothing has been delivered since.
func failsElsewhere(s *v1alpha1.CDEventSource, oldest time.Time) bool {
	c := s.Status.GetCondition(v1alpha1.SourceConditionDelivering)
	if !c.IsFalse() {
		return false
	}
	failed := c.LastTransitionTime.Inner.Time // truncated to the second
	since := s.Status.LastDelivery != nil && !s.Status.LastDelivery.Time.Before(failed)
	return oldest.Before(failed.Add(time.Second)) && !since
}

// keepTransitionTimes keeps a condition's last transition time while its status is unchanged.
func keepTransitionTimes(before, after *v1alpha1.CDEventSource) {
	for i := range after.Status.Conditions {
		c := &after.Status.Conditions[i]
		if was := before.Status.GetCondition(c.Type); was != nil && was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
	}
}

// onlyDeliveriesDiffer reports whether a status update may be delayed.
func onlyDeliveriesDiffer(before, after *v1alpha1.CDEventSource) bool {
	return equality.Semantic.DeepEqual(withoutDeliveries(before), withoutDeliveries(after))
}

func withoutDeliveries(s *v1alpha1.CDEventSource) v1alpha1.CDEventSourceStatus {
	status := s.Status
	status.Pending, status.OldestPending, status.LastDelivery = 0, nil, nil
	var conditions duckv1.Conditions
	for _, c := range s.Status.Conditions {
		if c.Type != v1alpha1.SourceConditionDelivering {
			conditions = append(conditions, c)
		}
	}
	status.Conditions = conditions
	return status
}
