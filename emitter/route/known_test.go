// SPDX-License-Identifier: Apache-2.0

package route

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// knows has a router find these sources, as they are when it looks.
func (r *Router) knows(all func() []*v1alpha1.CDEventSource) *Router {
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

func sourceNamed(name string) *v1alpha1.CDEventSource {
	s := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Generation: 1,
	}}
	s.Status.SinkURI, s.Status.ObservedGeneration = apis.HTTP("sink"), 1
	return s
}
