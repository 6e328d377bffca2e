// SPDX-License-Identifier: Apache-2.0

package doorbell

import "strings"

// Kind is a kind of objects, and under which name the API server serves it.
type Kind struct{ APIVersion, Kind, Resource string }

// The kinds that the core knows.
var (
	Namespaces     = &Kind{"v1", "Namespace", "namespaces"}
	Services       = &Kind{"serving.knative.dev/v1", "Service", "services"}
	Routes         = &Kind{"serving.knative.dev/v1", "Route", "routes"}
	Revisions      = &Kind{"serving.knative.dev/v1", "Revision", "revisions"}
	DomainMappings = &Kind{"serving.knative.dev/v1beta1", "DomainMapping", "domainmappings"}
	Sources        = &Kind{"knative-cdevents.dev/v1alpha1", "CDEventSource", "cdeventsources"}
	Subjects       = &Kind{"knative-cdevents.dev/v1alpha1", "CDEventSubject", "cdeventsubjects"}
	Gates          = &Kind{"knative-cdevents.dev/v1alpha1", "CanaryGate", "canarygates"}
	CustomRuns     = &Kind{"tekton.dev/v1beta1", "CustomRun", "customruns"}
)

// What metadata say, as api/v1alpha1 and Serving define it. Neither is imported: they would cost more memory than the
// rest of the doorbell.
const (
	forgetAnnotation = "knative-cdevents.dev/forget"
	wakeAnnotation   = "knative-cdevents.dev/wake"
	serviceLabel     = "serving.knative.dev/service"
	servingGroup     = "serving.knative.dev/"
	// productLabel is on everything of this installation, and product is its value.
	productLabel = "app.kubernetes.io/name"
	product      = "knative-cdevents"
)

// group is the API group, empty for the core's.
func (k *Kind) group() string {
	group, _, found := strings.Cut(k.APIVersion, "/")
	if !found {
		return ""
	}
	return group
}

// String is the name of the resource as RBAC and kubectl have it.
func (k *Kind) String() string {
	if group := k.group(); group != "" {
		return k.Resource + "." + group
	}
	return k.Resource
}

// path is where the API server serves the objects of a namespace, or of all.
func (k *Kind) path(namespace string) string {
	path := "/apis/" + k.APIVersion
	if k.group() == "" {
		path = "/api/" + k.APIVersion
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + k.Resource
}

// Key is what a ring names. The zero Key is the sweep: the core looks for what no change shows.
type Key struct {
	*Kind
	Namespace, Name string
}

// Sweep is the Key of the sweep.
var Sweep Key

func (k Key) String() string {
	if k == Sweep {
		return "sweep"
	}
	return k.Kind.Kind + " " + strings.TrimPrefix(k.Namespace+"/"+k.Name, "/")
}

// Change is what happened to the object that a Key names, as ApiServerSource calls it.
type Change string

// All changes.
const (
	Added   Change = "add"
	Updated Change = "update"
	Deleted Change = "delete"
)

// Object is what the doorbell reads of an object.
type Object struct {
	Metadata struct {
		Name            string            `json:"name"`
		Namespace       string            `json:"namespace"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
		OwnerReferences []struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
			Controller bool   `json:"controller"`
		} `json:"ownerReferences"`
	} `json:"metadata"`
}

// Watch says what is watched of a kind, and what follows from a change.
type Watch struct {
	*Kind
	// Namespace restricts the watch to one namespace; empty: all.
	Namespace string
	// Key returns what a change rings; false if it rings nothing.
	Key func(Change, *Object) (Key, bool)
	// Swept says that the sweep finds everything that a change rings. So a list need not ring what it has: it rings the
	// sweep.
	Swept bool
	// See is called with each object that is listed or changed. With it, everything is listed at each start.
	See func(Change, *Object)
	// Listing is called before everything is listed.
	Listing func()
}

// itself rings the object that changed.
func itself(kind *Kind) func(Change, *Object) (Key, bool) {
	return func(_ Change, o *Object) (Key, bool) { return Key{kind, o.Metadata.Namespace, o.Metadata.Name}, true }
}

// ofRoute rings the Service that owns a Route. Nothing is reported of a Route without one.
func ofRoute(_ Change, o *Object) (Key, bool) {
	for _, owner := range o.Metadata.OwnerReferences {
		if owner.Controller && owner.Kind == Services.Kind && strings.HasPrefix(owner.APIVersion, servingGroup) {
			return Key{Services, o.Metadata.Namespace, owner.Name}, true
		}
	}
	return Key{}, false
}

// ofRevision rings the Service of a Revision. Nothing is reported of a Revision without one.
func ofRevision(_ Change, o *Object) (Key, bool) {
	service := o.Metadata.Labels[serviceLabel]
	return Key{Services, o.Metadata.Namespace, service}, service != ""
}

// ofSubject rings an entry of the ledger that is gone, or is to be forgotten. Other changes are the core's own work:
// who wrote them answers for what follows, and each would have the core read everything again for nothing.
func ofSubject(c Change, o *Object) (Key, bool) {
	return Key{Subjects, o.Metadata.Namespace, o.Metadata.Name}, c == Deleted || o.Metadata.Annotations[forgetAnnotation] == "true"
}

// others rings what belongs to others than this installation. The core may be a Knative Service. When it has scaled to
// zero, its Revision says so: a ring about that would start it again, for ever. What a sweep sees of it, is announced.
func others(namespace string, key func(Change, *Object) (Key, bool)) func(Change, *Object) (Key, bool) {
	return func(c Change, o *Object) (Key, bool) {
		if o.Metadata.Namespace == namespace && o.Metadata.Labels[productLabel] == product {
			return Key{}, false
		}
		return key(c, o)
	}
}

// ofCustomRun rings a CustomRun that is new. For it, the core wakes what measures, which sees the rest itself.
func ofCustomRun(c Change, o *Object) (Key, bool) {
	return Key{CustomRuns, o.Metadata.Namespace, o.Metadata.Name}, c == Added
}

// watches are the watches of all kinds that the core reports about, is configured by, or wakes what measures for. A
// further one may be added to them; without Key, it rings nothing. A DomainMapping is rung itself: its Service is not
// in its metadata. CanaryGateRuns and ShardPlacements are not watched: what measures writes them itself, and the sweep
// finds those of a backup.
func watches(namespace string, w *wakes) []*Watch {
	return []*Watch{
		{Kind: Services, Key: others(namespace, itself(Services))},
		{Kind: Routes, Key: others(namespace, ofRoute)},
		{Kind: Revisions, Key: others(namespace, ofRevision)},
		{Kind: DomainMappings, Key: itself(DomainMappings)},
		{Kind: Sources, Key: itself(Sources)},
		{Kind: Subjects, Namespace: namespace, Key: ofSubject, See: w.see, Listing: w.clear},
		{Kind: Namespaces, Key: itself(Namespaces)},
		{Kind: Gates, Key: itself(Gates), Swept: true},
		{Kind: CustomRuns, Key: ofCustomRun, Swept: true},
	}
}
