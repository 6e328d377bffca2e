// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	client "knative.dev/serving/pkg/client/clientset/versioned/typed/serving/v1"
)

// every is the polling interval. Getting one object by name needs no permission to list.
const every = 500 * time.Millisecond

// shift executes the request. Only a conflict is retried, and then everything is read
// again: the other writer may have changed the traffic.
func shift(ctx context.Context, api client.ServingV1Interface, r request, results results) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	for {
		service, err := api.Services(r.namespace).Get(ctx, r.service, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading Service %s/%s: %w", r.namespace, r.service, err)
		}
		p, err := r.plan(service.Spec.Traffic)
		if err != nil {
			return fmt.Errorf("nothing was changed: Service %s/%s: %w", r.namespace, r.service, err)
		}
		if err := r.fit(ctx, api, p); err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
		// Before the write, so that a rollback knows the baseline.
		if err := results.write(baseline, p.baseline); err != nil {
			return err
		}
		if p.targets != nil {
			service, err = api.Services(r.namespace).Patch(ctx, r.service, types.MergePatchType,
				patch(service.ResourceVersion, p.targets), metav1.PatchOptions{FieldManager: "knative-traffic"})
			if apierrors.IsConflict(err) && ctx.Err() == nil {
				continue
			}
			if err != nil {
				return fmt.Errorf("writing the traffic of Service %s/%s: %w", r.namespace, r.service, err)
			}
		}
		if err := r.inForce(ctx, api, service.Generation, p.want); err != nil {
			return err
		}
		outcome := fmt.Sprintf("the traffic of Service %s/%s is %s", r.namespace, r.service, p.want)
		if p.targets != nil {
			outcome += fmt.Sprintf(" and was %s", p.now)
		}
		fmt.Println(outcome)
		return errors.Join(results.write(traffic, p.want.String()), results.write(message, outcome))
	}
}

// patch includes the resourceVersion, so the API server rejects it if anyone has written
// the Service since. It contains the traffic only: writing the template too would create
// a Revision, or fail if the template has a name.
func patch(resourceVersion string, targets []servingv1.TrafficTarget) []byte {
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": resourceVersion},
		"spec":     map[string]any{"traffic": targets},
	})
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return data
}

// fit checks that the Revisions belong to the Service, that the canary is Ready, and
// that it is the newer one.
func (r request) fit(ctx context.Context, api client.ServingV1Interface, p plan) error {
	if p.targets == nil && r.percent == 0 {
		return nil
	}
	concerned := []string{p.baseline}
	if r.percent > 0 {
		concerned = append(concerned, r.canary)
	}
	generation := map[string]int64{}
	for _, revision := range concerned {
		found, err := api.Revisions(r.namespace).Get(ctx, revision, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading Revision %s/%s: %w", r.namespace, revision, err)
		}
		if generation[revision], err = r.own(found); err != nil {
			return err
		}
	}
	if r.percent > 0 && !r.older && generation[r.canary] < generation[p.baseline] {
		return fmt.Errorf("%s is older than %s, so this is not a rollout; to do it anyway, set allow-older to true", r.canary,
			p.baseline)
	}
	return nil
}

// own returns the generation of a Revision of the Service. Only the canary must be Ready:
// a rollback goes to the baseline in any state, because there is nothing better.
func (r request) own(revision *servingv1.Revision) (int64, error) {
	if of := revision.Labels[serving.ServiceLabelKey]; of != r.service {
		return 0, fmt.Errorf(
			"revision %s/%s does not belong to Service %s, but to %q",
			r.namespace,
			revision.Name,
			r.service,
			of,
		)
	}
	if revision.Name == r.canary && !revision.IsReady() {
		return 0, fmt.Errorf("revision %s/%s is not Ready: %s", r.namespace, revision.Name,
			because(revision.Status.GetCondition(servingv1.RevisionConditionReady)))
	}
	n, err := strconv.ParseInt(revision.Labels[serving.ConfigurationGenerationLabelKey], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("revision %s/%s has no number in label %s: %w", r.namespace, revision.Name,
			serving.ConfigurationGenerationLabelKey, err)
	}
	return n, nil
}

// inForce waits until the split is in effect on the Route. The Service's own status is
// less exact: it skips steps, and can be not Ready for unrelated reasons.
func (r request) inForce(ctx context.Context, api client.ServingV1Interface, generation int64, want shares) error {
	last := errors.New("the Service has not been read yet")
	for {
		why, err := r.look(ctx, api, generation, want)
		switch {
		case err != nil:
			return err
		case why == nil:
			return nil
		case ctx.Err() == nil:
			last = why
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the traffic of Service %s/%s was set to %s, but is not in effect after %s: %w", r.namespace,
				r.service, want, r.timeout, last)
		case <-time.After(every):
		}
	}
}

// look returns why the split is not in effect yet, or an error if it never will be.
func (r request) look(
	ctx context.Context,
	api client.ServingV1Interface,
	generation int64,
	want shares,
) (why, err error) {
	service, err := api.Services(r.namespace).Get(ctx, r.service, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the Service: %w", err), nil
	}
	if got, err := pinned(
		service.Spec.Traffic,
	); service.Generation > generation &&
		(err != nil || !maps.Equal(got, want)) {
		return nil, fmt.Errorf(
			"the traffic of Service %s/%s was %s, but someone else has changed it since",
			r.namespace,
			r.service,
			want,
		)
	}
	if service.Status.ObservedGeneration < service.Generation {
		return errors.New("serving has not processed the Service yet"), nil
	}
	route, err := api.Routes(r.namespace).Get(ctx, r.service, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the Route: %w", err), nil
	}
	if route.Status.ObservedGeneration != route.Generation {
		return errors.New("serving has not processed the Route yet"), nil
	}
	if got, err := pinned(route.Status.Traffic); err != nil || !maps.Equal(got, want) {
		return fmt.Errorf("the Route has %s", got), nil
	}
	// Not Ready: a tag's certificate may take long, and does not keep the traffic from its way.
	for _, kind := range []apis.ConditionType{
		servingv1.RouteConditionAllTrafficAssigned, servingv1.RouteConditionIngressReady,
	} {
		if c := route.Status.GetCondition(kind); !c.IsTrue() {
			return fmt.Errorf("the Route's condition %s is not True: %s", kind, because(c)), nil
		}
	}
	return nil, nil
}
