// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
)

// knows has a router find these sources, as they are when it looks.
func knows(r *route.Router, all func() []*v1alpha1.CDEventSource) *route.Router {
	r.Sources = func(namespace string) []*v1alpha1.CDEventSource {
		return slices.DeleteFunc(slices.Clone(all()), func(s *v1alpha1.CDEventSource) bool { return s.Namespace != namespace })
	}
	r.Source = func(uid types.UID) *v1alpha1.CDEventSource {
		if i := slices.IndexFunc(all(), func(s *v1alpha1.CDEventSource) bool { return s.UID == uid }); i >= 0 {
			return all()[i]
		}
		return nil
	}
	return r
}
