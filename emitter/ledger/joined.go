// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// words are what nearly all CDEventSubjects have.
var words = []string{v1alpha1.SchemeGroupVersion.String(), "CDEventSubject", "serving.knative.dev/v1", "Service"}

// join makes one string of those that name a CDEventSubject. A decoder makes many, each of which takes more room than its length.
func join(s *v1alpha1.CDEventSubject) {
	fields := []*string{
		&s.Name, (*string)(&s.UID), &s.ResourceVersion, &s.Namespace, &s.APIVersion, &s.Kind,
		&s.Spec.APIVersion, &s.Spec.Kind, &s.Spec.Namespace, &s.Spec.Name, (*string)(&s.Spec.UID), &s.Status.LastEvent,
	}
	var all strings.Builder
	for _, f := range fields {
		if i := slices.Index(words, *f); i >= 0 {
			*f = words[i]
		} else if !strings.Contains(all.String(), *f) {
			all.WriteString(*f)
		}
	}
	joined := strings.Clone(all.String()) // a Builder has more room than it needs
	for _, f := range fields {
		if i := strings.Index(joined, *f); i >= 0 && !slices.Contains(words, *f) {
			*f = joined[i : i+len(*f)]
		}
	}
}
