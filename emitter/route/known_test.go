// SPDX-License-Identifier: Apache-2.0

package route

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// listed are all sources.
type listed []*v1alpha1.CDEventSource

func (l listed) Of(namespace string) []*v1alpha1.CDEventSource {
	return slices.DeleteFunc(slices.Clone(l), func(s *v1alpha1.CDEventSource) bool { return s.Namespace != namespace })
}

func (l listed) ByUID(uid types.UID) *v1alpha1.CDEventSource {
	if i := slices.IndexFunc(l, func(s *v1alpha1.CDEventSource) bool { return s.UID == uid }); i >= 0 {
		return l[i]
	}
	return nil
}

// operator is the environment that the operator has set.
type operator v1alpha1.Environment

func (operator) ClusterURI() string                  { return "https://cluster.example.com" }
func (o operator) Environment() v1alpha1.Environment { return v1alpha1.Environment(o) }

func sourceNamed(name string) *v1alpha1.CDEventSource {
	s := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Generation: 1,
	}}
	s.Status.SinkURI, s.Status.ObservedGeneration = apis.HTTP("sink"), 1
	return s
}
