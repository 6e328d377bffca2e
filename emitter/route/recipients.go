// SPDX-License-Identifier: Apache-2.0

package route

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Replays implements ledger.Router.
func (r *Router) Replays(
	subject v1alpha1.CDEventSubjectSpec, recipients []types.UID, with func() ledger.Labels,
) []types.UID {
	var out []types.UID
	candidates, surplus := r.candidates(subject.Namespace)
	for _, s := range candidates {
		if s.Spec.Replay != v1alpha1.ReplayCurrent || slices.Contains(recipients, s.UID) || r.bounded(s, surplus) != nil {
			continue
		}
		labels := with()
		// The namespace's present labels select its present state. If they cannot be
		// read, the watch of namespaces triggers another try.
		today, exists, err := r.NamespaceLabels(subject.Namespace)
		if err != nil {
			continue
		}
		if exists {
			labels.Namespace = today
		}
		// An invalid selector selects nothing; a condition reports it. One that needs a
		// label that was left out is tried again when there are fewer labels.
		if ok, err := r.selects(s, subject.Namespace, labels); ok && err == nil {
			out = append(out, s.UID)
		}
	}
	return out
}

// Recipients implements ledger.Router.
func (r *Router) Recipients(
	subject v1alpha1.CDEventSubjectSpec, with ledger.Labels, t lifecycle.Transition,
) []ledger.Recipient {
	var out []ledger.Recipient
	candidates, surplus := r.candidates(subject.Namespace)
	for rank, s := range candidates {
		ok, err := r.selects(s, subject.Namespace, with)
		refused := r.bounded(s, surplus)
		if err != nil {
			// A selector that is invalid, or cannot be applied, selects nothing.
			ok, refused = true, &ledger.Refusal{Reason: ledger.DroppedSelectorInvalid, Err: err}
			if errors.Is(err, errLabelsLeftOut) {
				refused.Reason = ledger.DroppedTooManyLabels
			}
		}
		if !ok {
			continue
		}
		if refused != nil {
			refused.Err = fmt.Errorf("choosing events of %s/%s: %w", subject.Namespace, subject.Name, refused.Err)
			out = append(out, ledger.Recipient{Source: s.UID, Refused: refused})
			continue
		}
		to := ledger.Recipient{Source: s.UID, Profile: r.profile(s, with.Namespace), Rank: rank}
		ok, err = r.passes(s, to.Profile, subject, t)
		to.Undecided = err != nil
		if ok || to.Undecided {
			out = append(out, to)
		}
	}
	return out
}

// bounded returns why a source receives nothing, nil if it is within its limits.
func (r *Router) bounded(s *v1alpha1.CDEventSource, surplus map[types.UID]bool) *ledger.Refusal {
	switch size := r.choice(s).size; {
	case s.Namespace != r.SystemNamespace && surplus[s.UID]:
		return &ledger.Refusal{Reason: ledger.DroppedTooManySources, Err: fmt.Errorf("namespace %s has more than %d "+
			"sources, and this one is not among the oldest", s.Namespace, MaxSources)}
	case size > MaxForm:
		return &ledger.Refusal{Reason: ledger.DroppedSourceTooLarge, Err: fmt.Errorf("spec.ceOverrides and "+
			"spec.environment have %d bytes as JSON, more than %d", size, MaxForm)}
	}
	return nil
}

// selects says whether a source selects an object.
func (r *Router) selects(s *v1alpha1.CDEventSource, namespace string, with ledger.Labels) (bool, error) {
	if s.DeletionTimestamp != nil {
		return false, nil
	}
	for _, field := range []string{"spec.selector", "spec.namespaceSelector"} {
		if u := v1alpha1.UnreadIn(s.Unread, field); u != nil {
			return false, u
		}
	}
	// If one selector does not match, it does not matter whether the other can be applied.
	sees, seesErr := r.sees(s, namespace, with.Namespace)
	matches, matchesErr := r.choice(s).own.matches(with.Own)
	if !sees && seesErr == nil || !matches && matchesErr == nil {
		return false, nil
	}
	return sees && matches, errors.Join(seesErr, matchesErr)
}

// sees says whether a source may receive the events of a namespace. Cluster-scoped objects, whose namespace is empty
// and has no labels, concern all teams, so only the operator's sources see them.
func (r *Router) sees(s *v1alpha1.CDEventSource, namespace string, labelled map[string]string) (bool, error) {
	if s.Spec.NamespaceSelector == nil {
		return s.Namespace == namespace || namespace == "" && s.Namespace == r.SystemNamespace, nil
	}
	if s.Namespace != r.SystemNamespace {
		return false, nil // a condition reports it: no source reads other teams' deployments
	}
	return r.choice(s).namespaces.matches(labelled)
}

// passes says whether an event passes the filters of a source.
func (r *Router) passes(
	s *v1alpha1.CDEventSource, p v1alpha1.Profile, subject v1alpha1.CDEventSubjectSpec, t lifecycle.Transition,
) (bool, error) {
	if u := v1alpha1.UnreadIn(s.Unread, "spec.filters"); u != nil {
		return false, u
	}
	if len(s.Spec.Filters) == 0 {
		return true, nil
	}
	// A panic counts as undecided: the event is given up when it is its turn to be sent.
	ev, err := r.Render.Recovering(p, subject, t)
	if err != nil {
		return false, err
	}
	return r.Filters.Passes(s, ev.Event)
}

// profile is how events are rendered for a source.
func (r *Router) profile(s *v1alpha1.CDEventSource, labelled map[string]string) v1alpha1.Profile {
	p := v1alpha1.Profile{
		SpecVersion: s.Spec.Version(), Rendering: r.Rendering,
		Source: r.Settings.ClusterURI(), Environment: r.Settings.Environment(),
	}
	if id := labelled[EnvironmentLabel]; id != "" {
		p.Environment.ID = id
	}
	if s.Spec.Environment != nil {
		p.Environment = *s.Spec.Environment
	}
	if o := s.Spec.CloudEventOverrides; o != nil && len(o.Extensions) > 0 {
		p.Extensions = withoutCredentials(o.Extensions)
	}
	p.Environment.ID = sanitize.WithoutCredentials(p.Environment.ID)
	p.Environment.Source = sanitize.WithoutCredentials(p.Environment.Source)
	return p
}

// withoutCredentials returns a map whose values have no credentials: the same one, if it has none. The journal
// stores it.
func withoutCredentials(all map[string]string) map[string]string {
	var out map[string]string
	for k, v := range all {
		bare := sanitize.WithoutCredentials(v)
		if bare != v && out == nil {
			out = maps.Clone(all)
		}
		if out != nil {
			out[k] = bare
		}
	}
	if out == nil {
		return all
	}
	return out
}
