// Package service watches Knative Services, with their Routes and Revisions.
//
// Its invariants: it reads and never writes. Caches hold projections of objects, so a cluster
// with tens of thousands of Revisions costs megabytes. Serving may be absent, installed later
// or uninstalled.
package service

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	servingv1beta1 "knative.dev/serving/pkg/apis/serving/v1beta1"

	"github.com/knative-cdevents/knative-cdevents/api/text"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// Names of the parts of a Service.
const (
	partService  = lifecycle.ObjectService
	partRoute    = lifecycle.ObjectRoute
	partRevision = "revision/"
	partDomain   = "domain/"
)

// serviceValue is what the caches hold of a Service.
type serviceValue struct {
	UID         types.UID
	Created     time.Time
	Generation  int64
	Ready       bool
	EverReady   bool
	Annotations map[string]string
	Labels      map[string]string
	Trouble     map[lifecycle.Incident]*lifecycle.Trouble
}

// routeValue is what the caches hold of a Route.
type routeValue struct {
	// Owner is the UID of the Service that the Route belongs to.
	Owner types.UID
	lifecycle.Route
}

// revisionValue is what the caches hold of a Revision.
type revisionValue struct {
	// Owner is the UID of the Service that the Revision belongs to.
	Owner types.UID
	Facts lifecycle.Revision
}

// domainValue is what the caches hold of a DomainMapping that is Ready.
type domainValue struct {
	URL string
}

// stored is the object that the caches hold.
type stored struct {
	metav1.ObjectMeta
	root types.NamespacedName
	part observer.Part
}

// GetObjectKind and DeepCopyObject make it a runtime.Object, as caches expect.
func (*stored) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns the same object: it is never changed.
func (s *stored) DeepCopyObject() runtime.Object { return s }

// projector turns objects into what the caches hold.
type projector struct {
	// carried are the annotations that events need.
	carried []string
	// clusterDomain is the DNS suffix inside the cluster.
	clusterDomain string
}

// transform is a cache.TransformFunc. Caches may pass in its own results, which it returns
// unchanged.
func (p projector) transform(obj any) (any, error) {
	switch o := obj.(type) {
	case *servingv1.Service:
		key := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
		return p.keep(o, key, observer.Part{Name: partService, Root: true, Owner: o.UID, Value: p.service(o)}), nil
	case *servingv1.Route:
		owner := metav1.GetControllerOf(o)
		if owner == nil || owner.Kind != "Service" || owner.Name != o.Name || !strings.HasPrefix(owner.APIVersion, serving.GroupName+"/") {
			return p.keep(o, types.NamespacedName{}, observer.Part{}), nil // it belongs to no Service
		}
		key := types.NamespacedName{Namespace: o.Namespace, Name: owner.Name}
		return p.keep(o, key, observer.Part{Name: partRoute, Owner: owner.UID, Value: p.route(o, owner.UID)}), nil
	case *servingv1.Revision:
		name := o.Labels[serving.ServiceLabelKey]
		if name == "" {
			return p.keep(o, types.NamespacedName{}, observer.Part{}), nil
		}
		value, err := p.revision(o)
		if err != nil {
			return nil, err
		}
		key := types.NamespacedName{Namespace: o.Namespace, Name: name}
		return p.keep(o, key, observer.Part{Name: partRevision + o.Name, Value: value}), nil
	case *servingv1beta1.DomainMapping:
		return p.domain(o), nil
	}
	return obj, nil
}

// domain projects a DomainMapping. One that is not Ready has no value, and one that refers to
// another kind has no part.
func (p projector) domain(o *servingv1beta1.DomainMapping) *stored {
	ref := o.Spec.Ref
	if ref.Kind != "Service" || !strings.HasPrefix(ref.APIVersion, serving.GroupName+"/") {
		return p.keep(o, types.NamespacedName{}, observer.Part{})
	}
	part := observer.Part{Name: partDomain + o.Name, Floating: true}
	// The status of an older generation is about what it referred to then.
	if o.IsReady() {
		if urls := p.public(nil, o.Status.URL); len(urls) > 0 {
			part.Value = domainValue{URL: urls[0]}
		}
	}
	// A DomainMapping must be in the namespace of its target.
	return p.keep(o, types.NamespacedName{Namespace: o.Namespace, Name: ref.Name}, part)
}

// withDomains adds URLs to those of a Route, whose first one stays first.
func withDomains(urls, domains []string) []string {
	if len(domains) == 0 {
		return urls
	}
	own := urls[:min(1, len(urls))]
	others := slices.Concat(urls[len(own):], domains)
	slices.Sort(others)
	return lifecycle.BoundURLs(slices.Concat(own, slices.Compact(others)))
}

func (projector) keep(o metav1.Object, root types.NamespacedName, part observer.Part) *stored {
	part.Version, part.Size = o.GetResourceVersion(), size(part.Value)
	return &stored{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
		},
		root: root,
		part: part,
	}
}

// size is about how many bytes a value takes.
func size(value any) int {
	n := 256
	of := func(m map[string]string) {
		for k, v := range m {
			n += len(k) + len(v) + 48
		}
	}
	switch v := value.(type) {
	case serviceValue:
		of(v.Annotations)
		of(v.Labels)
		for _, t := range v.Trouble {
			n += len(t.Reason) + len(t.Message) + 64
		}
	case routeValue:
		for _, u := range v.URLs {
			n += len(u) + 16
		}
		for _, s := range v.Traffic {
			n += len(s.Revision) + 24
		}
	case revisionValue:
		of(v.Facts.Annotations)
		for _, i := range v.Facts.Images {
			n += len(i.Container) + len(i.Image) + len(i.Digest) + 48
		}
	case domainValue:
		n += len(v.URL)
	}
	return n
}

func (p projector) service(o *servingv1.Service) serviceValue {
	return serviceValue{
		UID:         o.UID,
		Created:     o.CreationTimestamp.Time,
		Generation:  o.Generation,
		Ready:       o.IsReady(),
		EverReady:   o.Status.LatestReadyRevisionName != "",
		Annotations: p.carry(o.Annotations),
		Labels:      lifecycle.BoundLabels(o.Labels),
		Trouble:     trouble(o),
	}
}

// maxMessage is how many bytes of a condition's message are kept.
const maxMessage = 512

// trouble is what the conditions of a Service say is wrong. Unknown counts, too: while Serving
// tries to pull an image that does not exist, the condition is Unknown.
func trouble(o *servingv1.Service) map[lifecycle.Incident]*lifecycle.Trouble {
	var out map[lifecycle.Incident]*lifecycle.Trouble
	for kind, t := range map[lifecycle.Incident]apis.ConditionType{
		lifecycle.Outage:        servingv1.ServiceConditionRoutesReady,
		lifecycle.FailedRollout: servingv1.ServiceConditionConfigurationsReady,
	} {
		c := o.Status.GetCondition(t)
		if c == nil || c.IsTrue() || c.Reason == reasonRollout {
			continue
		}
		if out == nil {
			out = map[lifecycle.Incident]*lifecycle.Trouble{}
		}
		out[kind] = &lifecycle.Trouble{Reason: c.Reason, Message: text.Truncate(c.Message, maxMessage)}
	}
	return out
}

// reasonRollout is why a Route is not Ready during a gradual rollout.
const reasonRollout = "RolloutInProgress"

func (p projector) route(o *servingv1.Route, owner types.UID) routeValue {
	current := o.Status.ObservedGeneration == o.Generation
	ingress := o.Status.GetCondition(servingv1.RouteConditionIngressReady)
	rollout := ingress != nil && ingress.IsUnknown() && ingress.Reason == reasonRollout && rolling(o.Status.Traffic)
	v := routeValue{Owner: owner, Route: lifecycle.Route{
		Ready:     o.IsReady(),
		Rollout:   current && rollout,
		Effective: o.IsReady() || current && rollout,
	}}
	targets := make([]lifecycle.Share, 0, len(o.Status.Traffic))
	var tagged []string
	for _, t := range o.Status.Traffic {
		if t.Percent != nil {
			targets = append(targets, lifecycle.Share{Revision: t.RevisionName, Percent: *t.Percent})
		}
		if t.Tag != "" {
			tagged = p.public(tagged, t.URL)
		}
	}
	v.Traffic = lifecycle.Split(targets)
	slices.Sort(tagged)
	v.URLs = lifecycle.BoundURLs(append(p.public(nil, o.Status.URL), slices.Compact(tagged)...))
	return v
}

// rolling says whether a split belongs to a gradual rollout: several Revisions then serve one
// target. Otherwise, Serving was interrupted between writing the wanted and the effective
// split. Its condition says in both cases that the rollout is in progress (serving v0.50.0,
// route.go: configureTraffic writes the first, and an Ingress that has changed ends the
// reconciliation).
func rolling(targets []servingv1.TrafficTarget) bool {
	latest := map[string]string{}
	for _, t := range targets {
		if t.LatestRevision == nil || !*t.LatestRevision {
			continue
		}
		if other, ok := latest[t.Tag]; ok && other != t.RevisionName {
			return true
		}
		latest[t.Tag] = t.RevisionName
	}
	return false
}

// public appends a URL if it can be reached from outside the cluster.
func (p projector) public(to []string, u *apis.URL) []string {
	if u == nil || u.Host == "" {
		return to
	}
	host := u.URL().Hostname()
	if strings.HasSuffix(host, ".svc."+p.clusterDomain) || strings.HasSuffix(host, ".svc") || !strings.Contains(host, ".") {
		return to
	}
	return append(to, u.String())
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
		Facts: lifecycle.Revision{
			Stateful:    runtime,
			Misdeclared: wrong,
			Name:        o.Name,
			UID:         string(o.UID),
			Generation:  generation,
			Template:    template,
			Ready:       ready != nil && ready.IsTrue(),
			Annotations: p.carry(o.Annotations),
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
		return "", text.Truncate(strings.ReplaceAll(err.Error(), "\n", "; "), maxMessage)
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
var stamped = []string{serving.GroupName + "/", "client.knative.dev/", "kubectl.kubernetes.io/", "cdevents.knative-cdevents.dev/"}

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

// carry keeps the annotations that events need, within bounds.
func (p projector) carry(all map[string]string) map[string]string {
	var out map[string]string
	room := maxAnnotations
	for _, name := range p.carried {
		v, ok := all[name]
		if !ok {
			continue
		}
		if most := min(room, maxAnnotation); lifecycle.JSONSize(v) > most {
			v = shortened(v, most)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = v
		room = max(0, room-lifecycle.JSONSize(v))
	}
	return out
}

// cutOff ends a value that is too long. Events reject what contains it, with a note: a part of a commit
// or of a URL would name something else. Of a list, they reject the last entry only.
const cutOff = "\x7f"

// shortened returns as many entries of a list as fit, and cutOff.
func shortened(v string, most int) string {
	end, size := 0, len(cutOff)
	for i, r := range v {
		if size += lifecycle.JSONSize(string(r)); size > most {
			end = i
			break
		}
	}
	if last := strings.LastIndexByte(v[:end], ','); last > 0 {
		return clip(v, end) + "," + cutOff
	}
	return cutOff
}

// maxAnnotation is how many bytes of JSON events carry of one annotation, and maxAnnotations of all
// annotations of an object. Kubernetes allows 256 KiB, and the ledger keeps two dozen
// Revisions.
const (
	maxAnnotation  = 2 << 10
	maxAnnotations = 4 << 10
)

// clip shortens a value that is too long, at a comma if it is a list: half a link would point
// to something else.
func clip(v string, most int) string {
	if len(v) <= most {
		return v
	}
	if i := strings.LastIndexByte(v[:most], ','); i > 0 {
		return v[:i]
	}
	return strings.ToValidUTF8(v[:most], "")
}
