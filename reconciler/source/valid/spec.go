// SPDX-License-Identifier: Apache-2.0

package valid

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

// checkNamespaceSelector: permission to write a source in one namespace must not let
// a user read events of others. An empty selector selects all, so it is refused too.
func checkNamespaceSelector(s *v1alpha1.CDEventSource, system string) error {
	if s.Spec.NamespaceSelector == nil || s.Namespace == system {
		return nil
	}
	return Problemf(NamespaceSelectorNotAllowed,
		"spec.namespaceSelector is allowed only for sources in namespace %s, and this one is in %s; remove it to get "+
			"the events of %s, or ask an operator for a source there",
		system, s.Namespace, s.Namespace)
}

func checkSelectors(s *v1alpha1.CDEventSource, _ string) error {
	var all []error
	for _, l := range []struct {
		field    string
		selector *metav1.LabelSelector
	}{{"selector", s.Spec.Selector}, {"namespaceSelector", s.Spec.NamespaceSelector}} {
		if err := checkSelectorSize("spec."+l.field, l.selector); err != nil {
			all = append(all, err)
		} else if _, err := route.Selector(l.selector); err != nil {
			all = append(all, Problemf(InvalidSelector, "spec.%s is %v", l.field, err))
		}
	}
	return errors.Join(all...)
}

// The limits of a label selector, as the schema has them. The router has one for all of its text.
const (
	maxRequirements = 64
	maxValues       = 256
)

func checkSelectorSize(field string, s *metav1.LabelSelector) error {
	if s == nil {
		return nil
	}
	if len(s.MatchLabels) > maxRequirements {
		return Problemf(InvalidSelector, "%s.matchLabels has %d labels; it must not have more than %d",
			field, len(s.MatchLabels), maxRequirements)
	}
	if len(s.MatchExpressions) > maxRequirements {
		return Problemf(InvalidSelector, "%s.matchExpressions has %d requirements; it must not have more than %d",
			field, len(s.MatchExpressions), maxRequirements)
	}
	for i, r := range s.MatchExpressions {
		if len(r.Values) > maxValues {
			return Problemf(InvalidSelector, "%s.matchExpressions[%d].values has %d values; it must not have more than %d",
				field, i, len(r.Values), maxValues)
		}
	}
	return nil
}

func checkFilters(s *v1alpha1.CDEventSource, _ string) error {
	if len(s.Spec.Filters) == 0 {
		return nil
	}
	samples, err := cdevents.Samples(sampled(s))
	if err != nil {
		// checkVersion reports the invalid version.
		_, err = route.Compile(s.Spec.Filters)
	} else {
		err = route.Check(s.Spec.Filters, samples)
	}
	var all []error
	for _, err := range each(err) {
		all = append(all, Problemf(InvalidFilter, "%v", err))
	}
	return errors.Join(all...)
}

// sampled returns the profile of a source's events, with an example of the attributes
// that the controller's configuration adds.
func sampled(s *v1alpha1.CDEventSource) v1alpha1.Profile {
	p := v1alpha1.Profile{SpecVersion: s.Spec.Version(), Source: "https://cluster.example.com"}
	if s.Spec.CloudEventOverrides != nil {
		p.Extensions = s.Spec.CloudEventOverrides.Extensions
	}
	return p
}

func checkDelivery(s *v1alpha1.CDEventSource, _ string) error {
	var all []error
	_, err := transport.NewPolicy(s.Spec.Delivery)
	for _, err := range each(err) {
		all = append(all, Problemf(InvalidDelivery, "%v", err))
	}
	unread := v1alpha1.UnreadIn(s.Unread, LetterField)
	if d := s.Spec.Delivery; d != nil && d.Retry != nil && d.DeadLetterSink == nil && unread == nil {
		all = append(all, Problemf(InvalidDelivery, "spec.delivery.retry is set, and it needs deadLetterSink, which gets the "+
			"event after so many retries; without both, an event is retried until the sink accepts it"))
	}
	return errors.Join(all...)
}

// checkAuth checks the names of Secrets and of a key, which nothing can have otherwise.
func checkAuth(s *v1alpha1.CDEventSource, _ string) error {
	if s.Spec.Auth == nil {
		return nil
	}
	var all []error
	check := func(field, text string, rule func(string) []string) {
		for _, wrong := range rule(text) {
			all = append(all, Problemf(InvalidAuth, "spec.auth.%s is %q: %s", field, text, wrong))
		}
	}
	if a := s.Spec.Auth.Authorization; a != nil {
		check("authorization.name", a.Name, validation.IsDNS1123Subdomain)
		check("authorization.key", a.Key, validation.IsConfigMapKey)
	}
	if c := s.Spec.Auth.ClientCertificate; c != nil {
		check("clientCertificate.name", c.Name, validation.IsDNS1123Subdomain)
	}
	return errors.Join(all...)
}

func checkVersion(s *v1alpha1.CDEventSource, _ string) error {
	switch v := s.Spec.Version(); v {
	case cdevents.Version05, cdevents.Version04:
		return nil
	default:
		return Problemf(InvalidVersion, "spec.cdevents.version is %q; it must be %q or %q",
			v, cdevents.Version05, cdevents.Version04)
	}
}

func checkEnvironment(s *v1alpha1.CDEventSource, _ string) error {
	e := s.Spec.Environment
	if e == nil {
		return nil
	}
	if strings.TrimSpace(e.ID) == "" {
		return Problemf(InvalidEnvironment, "spec.environment.id is empty; give the environment an id, or remove "+
			"spec.environment")
	}
	if len(e.ID) > maxText || len(e.Source) > maxText {
		return Problemf(InvalidEnvironment, "spec.environment has an id or a source of more than %d bytes; use "+
			"shorter ones", maxText)
	}
	if e.Source == "" {
		return nil
	}
	if !cdevents.IsURI(e.Source) {
		return Problemf(InvalidEnvironment, "spec.environment.source is %q, which is not a URI reference; use one "+
			"such as https://example.com/environments", e.Source)
	}
	return nil
}

// maxExtensions bounds the attributes that a source adds to its events, as the schema does.
const maxExtensions = 64

// maxText bounds what a source adds to each event, as annotations are bounded:
// receivers may reject an event above 64 KiB, or headers that are too large.
const maxText = 1024

func checkOverrides(s *v1alpha1.CDEventSource, _ string) error {
	if s.Spec.CloudEventOverrides == nil {
		return nil
	}
	var bad []string
	size := 0
	for _, name := range slices.Sorted(maps.Keys(s.Spec.CloudEventOverrides.Extensions)) {
		size += len(name) + len(s.Spec.CloudEventOverrides.Extensions[name])
		if !v1alpha1.IsAttribute(name) {
			bad = append(bad, fmt.Sprintf("%q", name))
		}
	}
	switch n := len(s.Spec.CloudEventOverrides.Extensions); {
	case n > maxExtensions:
		return Problemf(InvalidOverrides, "spec.ceOverrides.extensions has %d attributes; it must not have more than %d",
			n, maxExtensions)
	case size > 4*maxText:
		return Problemf(InvalidOverrides, "spec.ceOverrides.extensions has %d bytes; it must not have more than %d, "+
			"because they are part of every event", size, 4*maxText)
	case len(bad) > 0:
		return Problemf(InvalidOverrides, "spec.ceOverrides.extensions has names that CloudEvents does not allow "+
			"(only lowercase letters and digits): %s", strings.Join(bad, ", "))
	}
	// Left out of each event, they would be missed late.
	for _, name := range slices.Sorted(maps.Keys(s.Spec.CloudEventOverrides.Extensions)) {
		if err := cdevents.CheckExtension(name, s.Spec.CloudEventOverrides.Extensions[name]); err != nil {
			return Problemf(InvalidOverrides, "spec.ceOverrides.extensions has %s, but %v", name, err)
		}
	}
	return nil
}

// checkForm bounds the size that the spec adds to each journaled event. It counts JSON,
// because some characters take six bytes there.
func checkForm(s *v1alpha1.CDEventSource, _ string) error {
	if size := route.FormSize(s); size > route.MaxForm {
		return Problemf(SourceTooLarge, "spec.ceOverrides and spec.environment have %d bytes as JSON; they must not "+
			"have more than %d, because they are stored with every event", size, route.MaxForm)
	}
	return nil
}

// Among refuses a source that is not among the oldest of its namespace.
func Among(all []*v1alpha1.CDEventSource, s *v1alpha1.CDEventSource, system string) error {
	if s.Namespace == system || !route.Surplus(all)[s.UID] {
		return nil
	}
	return TooMany(s.Namespace, system)
}

// TooMany is the error for a namespace that has too many sources.
func TooMany(namespace, system string) error {
	return Problemf(TooManySources, "namespace %s has more than %d CDEventSources, of which only the oldest %d "+
		"receive events; delete one that is not needed, or ask an operator for a source in %s",
		namespace, route.MaxSources, route.MaxSources, system)
}
