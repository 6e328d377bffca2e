// SPDX-License-Identifier: Apache-2.0

package service

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// revisionValue is what the caches hold of a Revision.
type revisionValue struct {
	// Owner is the UID of the Service that the Revision belongs to.
	Owner types.UID
	Facts *lifecycle.Revision
}

func (p projector) revision(o *servingv1.Revision) (revisionValue, error) {
	template, err := p.template(o)
	if err != nil {
		return revisionValue{}, err
	}
	// A label that is not a number cannot order Revisions: it counts as unknown.
	generation, err := strconv.ParseInt(o.Labels[serving.ConfigurationGenerationLabelKey], 10, 64)
	if err != nil {
		generation = 0
	}
	ready := o.Status.GetCondition(servingv1.RevisionConditionReady)
	runtime, wrong := declared(o.Annotations)
	v := revisionValue{
		Owner: types.UID(o.Labels[serving.ServiceUIDLabelKey]),
		Facts: &lifecycle.Revision{
			Stateful:    runtime,
			Misdeclared: wrong,
			Name:        o.Name,
			UID:         o.UID,
			Generation:  generation,
			Template:    template,
			Ready:       ready != nil && ready.IsTrue(),
			Annotations: lifecycle.BoundAnnotations(o.Annotations, p.carried),
		},
	}
	v.Facts.SetImages(images(o))
	return v, nil
}

// declared returns the runtime of the stateful cluster that a template declares, or what is
// wrong with the declaration.
func declared(annotations map[string]string) (runtime, wrong string) {
	s, _, err := v1alpha1.ParseStateful(annotations)
	if err != nil {
		return "", bounded(strings.ReplaceAll(err.Error(), "\n", "; "), maxMessage)
	}
	return string(s.Runtime), ""
}

// images lists the images of the containers. The serving container comes first: the one with a
// port, or the only one.
func images(o *servingv1.Revision) []lifecycle.Image {
	digest := map[string]string{}
	for _, s := range o.Status.ContainerStatuses {
		digest[s.Name] = s.ImageDigest
	}
	out := make([]lifecycle.Image, 0, len(o.Spec.Containers))
	for _, c := range o.Spec.Containers {
		image := lifecycle.Image{Container: c.Name, Image: c.Image, Digest: digest[c.Name]}
		if !strings.Contains(image.Digest, "@sha256:") {
			// Without tag resolution, the digest repeats the tag.
			image.Digest = ""
		}
		if len(c.Ports) > 0 {
			out = slices.Insert(out, 0, image)
			continue
		}
		out = append(out, image)
	}
	return out
}

// stamped are the prefixes of annotations that tools or Serving write. They are not part of
// what the user asked for.
var stamped = []string{
	serving.GroupName + "/", "client.knative.dev/", "kubectl.kubernetes.io/",
	"cdevents.knative-cdevents.dev/",
}

// template hashes what the user asked for.
func (projector) template(o *servingv1.Revision) (string, error) {
	annotations := map[string]string{}
	for k, v := range o.Annotations {
		if !slices.ContainsFunc(stamped, func(prefix string) bool { return strings.HasPrefix(k, prefix) }) {
			annotations[k] = v
		}
	}
	raw, err := json.Marshal(struct {
		Spec        servingv1.RevisionSpec
		Annotations map[string]string
	}{o.Spec, annotations})
	if err != nil {
		return "", fmt.Errorf("encoding the template of Revision %s/%s: %w", o.Namespace, o.Name, err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:12]), nil
}
