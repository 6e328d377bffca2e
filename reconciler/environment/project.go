// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// Label chooses environments. On a CustomResourceDefinition (or a CompositeResourceDefinition, which passes it
// on), "true" chooses all objects of the kind. On an object of a chosen kind, "true" announces it even if another
// object is made of it, and "false" never announces it.
const Label = "knative-cdevents.dev/watch-environment"

// IDLabel on an object is the id of its environment. On a namespace, it is the environment in the events of
// Services.
const IDLabel = "cdevents.knative-cdevents.dev/environment"

// partObject is the only part of an environment.
const partObject = "environment"

// Limits, in bytes, on what is kept of an object. Its author is not trusted.
const (
	maxMessage = 512
	maxField   = 253
	maxURL     = 2 << 10
	maxPools   = 64
)

// value is what the caches hold of an object.
type value struct {
	UID     types.UID
	Created time.Time
	// Facts lack the version, and whether the object is excluded because of what is watched.
	Facts lifecycle.EnvironmentSnapshot
	// Chosen is the object's own label.
	Chosen string
	// Part says that the object belongs to a claim or to a topology, or is composed.
	Part bool
	// Controller is the kind of the object's controller, empty if it has none.
	Controller schema.GroupKind
	// ControlPlane is the object that has the version, nil if this one has it.
	ControlPlane *lifecycle.ResourceRef
	// Composite is the composite of a claim, nil if there is none.
	Composite *lifecycle.ResourceRef
}

// stored is the object that the caches hold.
type stored struct {
	metav1.ObjectMeta
	part observer.Part
}

// GetObjectKind and DeepCopyObject make it a runtime.Object, as caches expect.
func (*stored) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns the same object: it is never changed.
func (s *stored) DeepCopyObject() runtime.Object { return s }

// projector turns objects of one kind into what the caches hold.
type projector struct {
	// carried are the annotations that events need.
	carried []string
	// composite says that a CompositeResourceDefinition defines the kind.
	composite bool
}

// Transform makes informers of a kind keep only what is needed. Carried are the annotations that events need; composite
// says that a CompositeResourceDefinition defines the kind.
func Transform(carried []string, composite bool) cache.TransformFunc {
	return projector{carried: carried, composite: composite}.transform
}

// transform is a cache.TransformFunc. Caches may pass in its own results, which it returns unchanged.
func (p projector) transform(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	return &stored{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(),
			ResourceVersion: u.GetResourceVersion(),
		},
		part: observer.Part{
			Name: partObject, Version: u.GetResourceVersion(), Root: true, Owner: u.GetUID(),
			Value: p.project(u),
		},
	}, nil
}

// project reads an object of any form: what does not have the expected type is absent.
func (p projector) project(u *unstructured.Unstructured) value {
	o := object{u}
	labels := u.GetLabels()
	v := value{UID: u.GetUID(), Created: u.GetCreationTimestamp().UTC(), Chosen: labels[Label]}
	if owner := metav1.GetControllerOfNoCopy(u); owner != nil {
		v.Controller = schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
	}
	switch {
	case o.isClusterAPI():
		o.clusterAPI(&v)
	default:
		o.conditioned(&v, p.composite)
	}
	v.Facts.Generation = u.GetGeneration()
	v.Facts.Resting = v.Facts.Resting || u.GetDeletionTimestamp() != nil
	v.Facts.Environment.ID = labels[IDLabel]
	v.Facts.Labels = lifecycle.BoundLabels(labels, IDLabel)
	v.Facts.Annotations = lifecycle.BoundAnnotations(u.GetAnnotations(), p.carried)
	return v
}

// object reads fields of an object of any kind.
type object struct{ *unstructured.Unstructured }

// at returns what stands at a path, nil if there is nothing.
func (o object) at(path ...string) any {
	v, _, err := unstructured.NestedFieldNoCopy(o.Object, path...)
	if err != nil {
		return nil // something else stands on the way
	}
	return v
}

// text returns the first of these fields that is a text, bounded.
func (o object) text(paths ...string) string {
	for _, p := range paths {
		if s, ok := o.at(strings.Split(p, ".")...).(string); ok && s != "" {
			return bounded(s, maxField)
		}
	}
	return ""
}

// bounded is what is kept of a text: no credentials, and no more than the limit. Cut off first, a URL would not show
// that it has some.
func bounded(s string, limit int) string {
	return sanitize.Truncate(sanitize.WithoutCredentials(s), limit)
}

// list returns the maps in the list at a path.
func (o object) list(path ...string) []map[string]any {
	all, ok := o.at(path...).([]any)
	if !ok {
		return nil
	}
	var out []map[string]any
	for _, v := range all {
		if m, ok := v.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// field returns the first of these fields that is a text, bounded. If none is and one of them has something else in
// it, a note says that it is left out: a version that is written as a number may have lost a digit.
func (o object) field(notes *[]string, what string, paths ...string) string {
	if s := o.text(paths...); s != "" {
		return s
	}
	for _, p := range paths {
		if v := o.at(strings.Split(p, ".")...); v != nil && v != "" {
			*notes = append(*notes, fmt.Sprintf("the %s is left out: %s is not a text", what, p))
			return ""
		}
	}
	return ""
}

// url returns the first of these fields that is an address, as an absolute URI. If none is, a note says what is wrong
// with the first that should be one.
func (o object) url(notes *[]string, paths ...string) string {
	wrong := ""
	for _, p := range paths {
		s := str(o.at(strings.Split(p, ".")...))
		if s == "" {
			continue
		}
		address, err := endpoint(s, 0)
		if err == nil {
			return address
		}
		if wrong == "" {
			wrong = fmt.Sprintf("the endpoint in %s is left out: %v", p, err)
		}
	}
	if wrong != "" {
		*notes = append(*notes, wrong)
	}
	return ""
}

// condition is one of an object's conditions.
type condition struct {
	status, reason, message string
	// generation is what the condition holds for, 0 if it does not say.
	generation int64
	since      time.Time
}

func (c condition) is(status metav1.ConditionStatus) bool { return c.status == string(status) }

// current reports whether the condition holds for the generation, and whether it says so.
func (c condition) current(generation int64) (current, says bool) {
	return c.generation == 0 || c.generation >= generation, c.generation != 0
}

// trouble is what an incident tells of a condition.
func (c condition) trouble() *lifecycle.Trouble {
	return &lifecycle.Trouble{Reason: bounded(c.reason, maxField), Message: bounded(c.message, maxMessage)}
}

// conditions returns the conditions at a path, by type.
func (o object) conditions(path ...string) map[string]condition {
	out := map[string]condition{}
	for _, m := range o.list(path...) {
		name, ok := m["type"].(string)
		if !ok {
			continue
		}
		c := condition{status: str(m["status"]), reason: str(m["reason"]), message: str(m["message"])}
		if n, ok := m["observedGeneration"].(int64); ok {
			c.generation = n
		}
		if at, err := time.Parse(time.RFC3339, str(m["lastTransitionTime"])); err == nil {
			c.since = at
		}
		out[name] = c
	}
	return out
}

func str(v any) string {
	s, ok := v.(string)
	if !ok {
		return ""
	}
	return s
}

// declared returns a hash over what a user declares, after the version of the API and the form: which fields are part
// of it. Change the form's number when other fields are: hashes of different forms are not compared.
func (o object) declared(form string, v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "" // it came from JSON
	}
	sum := sha256.Sum256(raw)
	return fmt.Sprintf("%s/%s:%s", o.GroupVersionKind().Version, form, hex.EncodeToString(sum[:16]))
}

// without returns a copy of what was decoded from JSON, without the entries of these names.
func without(v any, top, everywhere []string) any {
	switch t := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for _, k := range slices.Sorted(maps.Keys(t)) {
			if !slices.Contains(top, k) && !slices.Contains(everywhere, k) {
				out[k] = without(t[k], nil, everywhere)
			}
		}
		return out
	case []any:
		out := make([]any, len(t))
		for i := range t {
			out[i] = without(t[i], nil, everywhere)
		}
		return out
	}
	return v
}
