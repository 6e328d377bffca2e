// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
)

// listed are all sources, and what the operator has set.
type listed []*v1alpha1.CDEventSource

var (
	_ route.Sources  = listed{}
	_ route.Settings = listed{}
)

func (l listed) Of(namespace string) []*v1alpha1.CDEventSource {
	return slices.DeleteFunc(slices.Clone(l), func(s *v1alpha1.CDEventSource) bool { return s.Namespace != namespace })
}

func (l listed) ByUID(uid types.UID) *v1alpha1.CDEventSource {
	if i := slices.IndexFunc(l, func(s *v1alpha1.CDEventSource) bool { return s.UID == uid }); i >= 0 {
		return l[i]
	}
	return nil
}

func (listed) ClusterURI() string                { return "https://cluster.example.com" }
func (listed) Environment() v1alpha1.Environment { return v1alpha1.Environment{ID: "test"} }
