// SPDX-License-Identifier: Apache-2.0

package service

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// nameSidecars adds the sidecar that the pods of a Revision have to the images with which it is announced as ready. Its
// template does not name it: the injector puts it into the pods, and another version of it makes no Revision.
func (k *Kind) nameSidecars(service types.NamespacedName, transitions []lifecycle.Transition) {
	k.mu.RLock()
	clusters := k.clusters
	k.mu.RUnlock()
	if clusters == nil {
		return
	}
	for _, t := range transitions {
		r := t.Revision
		if t.Type != lifecycle.RevisionReady || r.Stateful != string(v1alpha1.RuntimeSidecar) {
			continue
		}
		image := clusters.Sidecar(service, r.UID)
		if image == "" {
			continue
		}
		// The memory has the same slice.
		r.Images = lifecycle.BoundImages(append(slices.Clone(r.Images), lifecycle.InPod(v1alpha1.SidecarContainer, image)))
	}
}
