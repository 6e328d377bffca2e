// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"

	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source/valid"
)

// authenticate checks that the credentials for the source's sinks exist, exactly as a
// delivery will look them up.
func (r *Reconciler) authenticate(ctx context.Context, s *v1alpha1.CDEventSource, conditions apis.ConditionManager) {
	const ready = v1alpha1.SourceConditionCredentialsReady
	known := s.Status.ObservedGeneration == s.Generation
	s.Status.Auth = nil
	shows := false
	for _, at := range []struct {
		uri        *apis.URL
		references credentials.References
	}{
		{s.SinkAddress(), credentials.OfSink(s)},
		{s.DeadLetterSinkAddress(), credentials.OfDeadLetterSink(s)},
	} {
		if at.references.Empty() {
			continue
		}
		shows = true
		if at.references.Audience != "" {
			name := at.references.ServiceAccount()
			s.Status.Auth = &duckv1.AuthStatus{ServiceAccountName: &name}
		}
		if at.uri == nil {
			conditions.MarkUnknown(ready, valid.SinkNotResolved,
				"The credentials are checked as soon as the sink has an address")
			return
		}
		_, err := r.credentials.For(ctx, at.references, at.uri.URL())
		if err == nil {
			continue
		}
		var p *credentials.WithheldError
		if errors.As(err, &p) {
			conditions.MarkFalse(ready, p.Reason, "%s", p.Message)
		} else if !known || !s.Status.GetCondition(ready).IsTrue() {
			conditions.MarkUnknown(ready, valid.LookupFailed, "%s", err)
		}
		return
	}
	if shows {
		conditions.MarkTrue(ready)
		return
	}
	conditions.MarkTrueWithReason(ready, valid.NotConfigured, "The source sends no credentials to its sinks")
}
