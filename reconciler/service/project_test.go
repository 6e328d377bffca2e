package service

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	servingv1beta1 "knative.dev/serving/pkg/apis/serving/v1beta1"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

var project = projector{carried: []string{"cdevents.knative-cdevents.dev/commit-sha"}, clusterDomain: "cluster.local"}

func percent(p int64) *int64 { return &p }

func meta(name string, owner *metav1.OwnerReference) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7", Generation: 2,
		CreationTimestamp: metav1.NewTime(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)),
		ManagedFields:     []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		Annotations:       map[string]string{"cdevents.knative-cdevents.dev/commit-sha": "abc", "kubectl.kubernetes.io/last-applied-configuration": "{…}"},
		Labels:            map[string]string{"app": "cart"},
	}
	if owner != nil {
		m.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return m
}

func owner(kind string) *metav1.OwnerReference {
	yes := true
	return &metav1.OwnerReference{APIVersion: "serving.knative.dev/v1", Kind: kind, Name: "cart", UID: "uid-cart", Controller: &yes}
}

func is(status corev1.ConditionStatus, reason string, t apis.ConditionType) apis.Condition {
	return apis.Condition{Type: t, Status: status, Reason: reason}
}

func mustURL(s string) *apis.URL {
	u, err := apis.ParseURL(s)
	if err != nil {
		panic(err)
	}
	return u
}

func newService() *servingv1.Service {
	s := &servingv1.Service{ObjectMeta: meta("cart", nil)}
	s.Status.ObservedGeneration = 2
	s.Status.Conditions = duckv1.Conditions{is(corev1.ConditionTrue, "", apis.ConditionReady)}
	s.Status.LatestReadyRevisionName = "cart-00001"
	return s
}

func newRoute() *servingv1.Route {
	r := &servingv1.Route{ObjectMeta: meta("cart", owner("Service"))}
	r.Status.ObservedGeneration = 2
	r.Status.Conditions = duckv1.Conditions{
		is(corev1.ConditionTrue, "", apis.ConditionReady), is(corev1.ConditionTrue, "", servingv1.RouteConditionIngressReady),
	}
	r.Status.URL = mustURL("http://cart.shop.example.com")
	r.Status.Traffic = []servingv1.TrafficTarget{
		{RevisionName: "cart-00001", Percent: percent(60)},
		{RevisionName: "cart-00002", Percent: percent(10), Tag: "canary", URL: mustURL("http://canary-cart.shop.example.com")},
		{RevisionName: "cart-00001", Percent: percent(30)},
		{RevisionName: "cart-00003", Tag: "next", URL: mustURL("http://next-cart.shop.svc.cluster.local")},
	}
	return r
}

func newRevision() *servingv1.Revision {
	r := &servingv1.Revision{ObjectMeta: meta("cart-00002", owner("Configuration"))}
	r.Labels = map[string]string{
		serving.ServiceLabelKey: "cart", serving.ServiceUIDLabelKey: "uid-cart", serving.ConfigurationGenerationLabelKey: "2",
	}
	r.Spec.Containers = []corev1.Container{
		{Name: "proxy", Image: "registry/proxy:1"},
		{Name: "app", Image: "registry/app:2", Ports: []corev1.ContainerPort{{ContainerPort: 8080}}},
	}
	r.Status.Conditions = duckv1.Conditions{is(corev1.ConditionTrue, "", apis.ConditionReady)}
	r.Status.ContainerStatuses = []servingv1.ContainerStatus{
		{Name: "app", ImageDigest: "registry/app@sha256:aa"}, {Name: "proxy", ImageDigest: "registry/proxy@sha256:bb"},
	}
	return r
}

func transformed(t *testing.T, obj any) *stored {
	t.Helper()
	once, err := project.transform(obj)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := project.transform(once)
	if err != nil || !reflect.DeepEqual(once, twice) {
		t.Fatalf("a second transform changes the object (%v): %+v", err, twice)
	}
	s, ok := once.(*stored)
	if !ok {
		t.Fatalf("stored as %T", once)
	}
	if s.ManagedFields != nil || s.Annotations != nil || s.Name == "" || s.UID == "" || s.ResourceVersion != "7" {
		t.Errorf("metadata: %+v", s.ObjectMeta)
	}
	return s
}

func TestProjectService(t *testing.T) {
	s := transformed(t, newService())
	want := serviceValue{
		UID: "uid-cart", Created: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC), Generation: 2, Ready: true, EverReady: true,
		Annotations: map[string]string{"cdevents.knative-cdevents.dev/commit-sha": "abc"}, Labels: map[string]string{"app": "cart"},
	}
	if !reflect.DeepEqual(s.part.Value, want) || !s.part.Root || s.part.Owner != "uid-cart" {
		t.Errorf("got %+v", s.part)
	}
	lagging := newService()
	lagging.Generation = 3
	if v, _ := transformed(t, lagging).part.Value.(serviceValue); v.Ready {
		t.Error("Ready, although the status is of an older generation")
	}
}

func TestProjectRoute(t *testing.T) {
	s := transformed(t, newRoute())
	want := routeValue{Owner: "uid-cart", Route: lifecycle.Route{
		Effective: true, Ready: true,
		Traffic: []lifecycle.Share{{Revision: "cart-00001", Percent: 90}, {Revision: "cart-00002", Percent: 10}},
		URLs:    []string{"http://cart.shop.example.com", "http://canary-cart.shop.example.com"},
	}}
	if !reflect.DeepEqual(s.part.Value, want) || s.root.Name != "cart" || s.part.Owner != "uid-cart" {
		t.Errorf("got %+v", s.part)
	}
}

func TestSplitIsEffective(t *testing.T) {
	unknown, no := corev1.ConditionUnknown, corev1.ConditionFalse
	for name, c := range map[string]struct {
		ready, ingress   apis.Condition
		generation       int64
		effective, going bool
	}{
		"ready":                        {is(corev1.ConditionTrue, "", apis.ConditionReady), is(corev1.ConditionTrue, "", servingv1.RouteConditionIngressReady), 2, true, false},
		"gradual rollout":              {is(unknown, "RolloutInProgress", apis.ConditionReady), is(unknown, "RolloutInProgress", servingv1.RouteConditionIngressReady), 2, true, true},
		"ingress not configured":       {is(unknown, "IngressNotConfigured", apis.ConditionReady), is(unknown, "IngressNotConfigured", servingv1.RouteConditionIngressReady), 2, false, false},
		"revision missing":             {is(no, "RevisionMissing", apis.ConditionReady), is(corev1.ConditionTrue, "", servingv1.RouteConditionIngressReady), 2, false, false},
		"status lags behind":           {is(corev1.ConditionTrue, "", apis.ConditionReady), is(corev1.ConditionTrue, "", servingv1.RouteConditionIngressReady), 3, false, false},
		"gradual rollout, status lags": {is(unknown, "RolloutInProgress", apis.ConditionReady), is(unknown, "RolloutInProgress", servingv1.RouteConditionIngressReady), 3, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoute()
			r.Generation = c.generation
			r.Status.Conditions = duckv1.Conditions{c.ready, c.ingress}
			r.Status.Traffic = split("cart-00001", "cart-00002")
			v, ok := transformed(t, r).part.Value.(routeValue)
			if !ok || v.Effective != c.effective || v.Rollout != c.going {
				t.Errorf("got %+v", v)
			}
		})
	}
}

// split returns traffic of 10 % for each Revision. All are targets of latestRevision.
func split(revisions ...string) []servingv1.TrafficTarget {
	yes := true
	var out []servingv1.TrafficTarget
	for _, name := range revisions {
		out = append(out, servingv1.TrafficTarget{RevisionName: name, Percent: percent(10), LatestRevision: &yes})
	}
	return out
}

// If Serving is interrupted, the status may hold the requested traffic next to the condition
// of a rollout that has not got there yet.
func TestRequestedTrafficIsNotARolloutStep(t *testing.T) {
	no := false
	pinned := servingv1.TrafficTarget{RevisionName: "cart-00001", Percent: percent(80), LatestRevision: &no}
	tagged := split("cart-00001", "cart-00002")
	tagged[1].Tag = "next"
	for name, c := range map[string]struct {
		traffic   []servingv1.TrafficTarget
		effective bool
	}{
		"two Revisions for one target":       {split("cart-00001", "cart-00002"), true},
		"next to another target":             {append(split("cart-00002", "cart-00003"), pinned), true},
		"all traffic to the last":            {split("cart-00002"), false},
		"one target for each Revision":       {append(split("cart-00002"), pinned), false},
		"two targets for one Revision":       {split("cart-00002", "cart-00002"), false},
		"another Revision under another tag": {tagged, false},
	} {
		r := newRoute()
		r.Status.Conditions = duckv1.Conditions{
			is(corev1.ConditionUnknown, reasonRollout, apis.ConditionReady), is(corev1.ConditionUnknown, reasonRollout, servingv1.RouteConditionIngressReady),
		}
		r.Status.Traffic = c.traffic
		if v, ok := transformed(t, r).part.Value.(routeValue); !ok || v.Effective != c.effective || v.Rollout != c.effective {
			t.Errorf("%s: got %+v", name, v)
		}
	}
}

func TestPublicURLs(t *testing.T) {
	for host, public := range map[string]bool{
		"http://cart.shop.example.com": true, "https://cart.shop.example.com:8443": true,
		"http://cart.shop.svc.cluster.local": false, "http://cart.shop.svc": false, "http://cart": false,
	} {
		if got := len(project.public(nil, mustURL(host))) == 1; got != public {
			t.Errorf("%s: %v", host, got)
		}
	}
	if project.public(nil, nil) != nil {
		t.Error("URLs without a URL")
	}
}

func TestProjectRevision(t *testing.T) {
	s := transformed(t, newRevision())
	v, ok := s.part.Value.(revisionValue)
	if !ok || v.Owner != "uid-cart" || v.Facts.Generation != 2 || !v.Facts.Ready || v.Facts.UID != "uid-cart-00002" {
		t.Fatalf("got %+v", s.part)
	}
	want := []lifecycle.Image{
		{Container: "app", Image: "registry/app:2", Digest: "registry/app@sha256:aa"},
		{Container: "proxy", Image: "registry/proxy:1", Digest: "registry/proxy@sha256:bb"},
	}
	if !reflect.DeepEqual(v.Facts.Images, want) {
		t.Errorf("images %+v; the serving container comes first", v.Facts.Images)
	}
	unresolved := newRevision()
	unresolved.Status.ContainerStatuses = []servingv1.ContainerStatus{{Name: "app", ImageDigest: "registry/app:2"}}
	v, _ = transformed(t, unresolved).part.Value.(revisionValue)
	if v.Facts.Images[0].Digest != "" {
		t.Errorf("a tag is used as a digest: %+v", v.Facts.Images[0])
	}
}

func TestTemplateHash(t *testing.T) {
	hash := func(change func(*servingv1.Revision)) string {
		r := newRevision()
		change(r)
		v, ok := transformed(t, r).part.Value.(revisionValue)
		if !ok {
			t.Fatal("not a Revision")
		}
		return v.Facts.Template
	}
	as := hash(func(*servingv1.Revision) {})
	for name, change := range map[string]func(*servingv1.Revision){
		"name":                func(r *servingv1.Revision) { r.Name = "cart-00009" },
		"kn timestamp":        func(r *servingv1.Revision) { r.Annotations["client.knative.dev/updateTimestamp"] = "now" },
		"kubectl timestamp":   func(r *servingv1.Revision) { r.Annotations["kubectl.kubernetes.io/restartedAt"] = "now" },
		"Serving annotation":  func(r *servingv1.Revision) { r.Annotations["serving.knative.dev/routes"] = "cart" },
		"another commit":      func(r *servingv1.Revision) { r.Annotations["cdevents.knative-cdevents.dev/commit-sha"] = "def" },
		"labels":              func(r *servingv1.Revision) { r.Labels["serving.knative.dev/routingState"] = "active" },
		"status":              func(r *servingv1.Revision) { r.Status.Conditions = nil },
		"generation as label": func(r *servingv1.Revision) { r.Labels[serving.ConfigurationGenerationLabelKey] = "9" },
	} {
		if hash(change) != as {
			t.Errorf("%s changes the template", name)
		}
	}
	for name, change := range map[string]func(*servingv1.Revision){
		"environment": func(r *servingv1.Revision) { r.Spec.Containers[1].Env = []corev1.EnvVar{{Name: "A", Value: "1"}} },
		"scale":       func(r *servingv1.Revision) { r.Annotations["autoscaling.knative.dev/min-scale"] = "2" },
		"image":       func(r *servingv1.Revision) { r.Spec.Containers[1].Image = "registry/app:3" },
	} {
		if hash(change) == as {
			t.Errorf("%s does not change the template", name)
		}
	}
}

func TestHugeAnnotationsAreTruncated(t *testing.T) {
	for name, c := range map[string]struct{ in, out string }{
		"short":  {"abc", "abc"},
		"long":   {strings.Repeat("x", 240<<10), strings.Repeat("x", maxAnnotation)},
		"list":   {strings.Repeat("CI=0123456789,", 20<<10), strings.TrimSuffix(strings.Repeat("CI=0123456789,", maxAnnotation/14), ",")},
		"runes":  {strings.Repeat("é", maxAnnotation), strings.Repeat("é", maxAnnotation/2)},
		"broken": {"x" + strings.Repeat("é", maxAnnotation), "x" + strings.Repeat("é", maxAnnotation/2-1)},
	} {
		if got := clip(c.in, maxAnnotation); got != c.out {
			t.Errorf("%s: %d bytes, want %d", name, len(got), len(c.out))
		}
	}
}

func TestStandaloneObjectsAreIgnored(t *testing.T) {
	alone := newRoute()
	alone.OwnerReferences = nil
	other := newRoute()
	other.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Service", Name: "x", Controller: func() *bool { b := true; return &b }()}}
	loose := newRevision()
	loose.Labels = nil
	for name, obj := range map[string]any{"route": alone, "route of something else": other, "revision": loose} {
		if s := transformed(t, obj); s.root.Name != "" || s.part.Value != nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func newDomain() *servingv1beta1.DomainMapping {
	d := &servingv1beta1.DomainMapping{ObjectMeta: meta("cart.example.com", nil)}
	d.Spec.Ref = duckv1.KReference{APIVersion: "serving.knative.dev/v1", Kind: "Service", Name: "cart"}
	d.Status.URL = mustURL("https://cart.example.com")
	d.Status.Conditions = duckv1.Conditions{is(corev1.ConditionTrue, "", apis.ConditionReady)}
	d.Status.ObservedGeneration = d.Generation
	return d
}

func TestDomainMappingBelongsToItsTarget(t *testing.T) {
	s := transformed(t, newDomain())
	if s.root.Name != "cart" || s.part.Name != "domain/cart.example.com" || s.part.Value != (domainValue{URL: "https://cart.example.com"}) {
		t.Errorf("%+v", s)
	}
	for name, change := range map[string]func(*servingv1beta1.DomainMapping){
		"not Ready":     func(d *servingv1beta1.DomainMapping) { d.Status.Conditions[0].Status = corev1.ConditionFalse },
		"no condition":  func(d *servingv1beta1.DomainMapping) { d.Status.Conditions = nil },
		"stale status":  func(d *servingv1beta1.DomainMapping) { d.Generation++ },
		"cluster-local": func(d *servingv1beta1.DomainMapping) { d.Status.URL = mustURL("http://cart.shop.svc.cluster.local") },
	} {
		d := newDomain()
		change(d)
		if s := transformed(t, d); s.root.Name != "cart" || s.part.Value != nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
	elsewhere := newDomain()
	elsewhere.Spec.Ref.APIVersion = "v1"
	if s := transformed(t, elsewhere); s.root.Name != "" {
		t.Errorf("for a Kubernetes Service: %+v", s)
	}
}

func TestDomainMappingsAddURLs(t *testing.T) {
	parts := observer.Parts{}
	for _, obj := range []any{newService(), newRoute(), newDomain()} {
		p := transformed(t, obj).part
		parts[p.Name] = p
	}
	urls := Compose(parts).Snapshot.Route.URLs
	route, ok := parts[partRoute].Value.(routeValue)
	if !ok || !slices.Contains(urls, "https://cart.example.com") || urls[0] != route.URLs[0] || len(urls) != len(route.URLs)+1 {
		t.Errorf("%q", urls)
	}
	if got := withDomains(nil, []string{"https://b", "https://a", "https://b"}); !slices.Equal(got, []string{"https://a", "https://b"}) {
		t.Errorf("%q", got)
	}
}

func TestTroubleFromConditions(t *testing.T) {
	s := newService()
	s.Status.Conditions = append(s.Status.Conditions,
		is(corev1.ConditionUnknown, "RevisionMissing", servingv1.ServiceConditionConfigurationsReady),
		is(corev1.ConditionUnknown, reasonRollout, servingv1.ServiceConditionRoutesReady))
	if got := trouble(s); len(got) != 1 || got[lifecycle.FailedRollout].Reason != "RevisionMissing" {
		t.Errorf("trouble during a gradual rollout: %+v", got)
	}
	s.Status.Conditions[2] = is(corev1.ConditionFalse, "RevisionMissing", servingv1.ServiceConditionRoutesReady)
	s.Status.Conditions[2].Message = strings.Repeat("é", maxMessage)
	if got := trouble(s)[lifecycle.Outage]; got == nil || len(got.Message) != maxMessage+len("…") {
		t.Errorf("%+v", got)
	}
	if got := trouble(newService()); got != nil {
		t.Errorf("trouble of a healthy Service: %+v", got)
	}
}

func TestCompose(t *testing.T) {
	parts := observer.Parts{}
	for _, obj := range []any{newService(), newRoute(), newRevision()} {
		p := transformed(t, obj).part
		parts[p.Name] = p
	}
	s := Compose(parts)
	if s.UID != "uid-cart" || s.Snapshot.Route == nil || len(s.Snapshot.Revisions) != 1 || !s.Snapshot.Ready || s.Snapshot.Versions[lifecycle.ObjectRoute] != "7" {
		t.Errorf("got %+v", s)
	}
	again := parts[partService]
	value, ok := again.Value.(serviceValue)
	if !ok {
		t.Fatal("not a Service")
	}
	value.UID = "uid-new"
	again.Value = value
	parts[partService] = again
	if s := Compose(parts); s.Snapshot.Route != nil || len(s.Snapshot.Revisions) != 0 {
		t.Errorf("it has the parts of a deleted Service of the same name: %+v", s.Snapshot)
	}
	delete(parts, partService)
	if Compose(parts) != nil {
		t.Error("a snapshot without a Service")
	}
}

// Only a small part of an object is kept, however large a tenant makes it.
func TestHugeObjectsAreTruncated(t *testing.T) {
	t.Parallel()
	route := newRoute()
	for i := range 4000 {
		u, err := apis.ParseURL(fmt.Sprintf("https://tag-%04d-%s.apps.example.com", i, strings.Repeat("t", 50)))
		if err != nil {
			t.Fatal(err)
		}
		route.Status.Traffic = append(route.Status.Traffic, servingv1.TrafficTarget{Tag: fmt.Sprint(i), RevisionName: "cart-00001", URL: u})
	}
	revision := newRevision()
	for i := range 400 {
		revision.Spec.Containers = append(revision.Spec.Containers, corev1.Container{Name: fmt.Sprint(i), Image: strings.Repeat("i", 400)})
	}
	revision.Annotations = map[string]string{}
	for _, name := range project.carried {
		revision.Annotations[name] = strings.Repeat("a", 10<<10)
	}
	for name, obj := range map[string]any{"route": route, "revision": revision} {
		p := transformed(t, obj).part
		raw, err := json.Marshal(p.Value)
		if err != nil || len(raw) > 20<<10 || p.Size > 20<<10 || p.Size < len(raw)/4 {
			t.Errorf("%s: %d bytes kept, counted as %d (%v)", name, len(raw), p.Size, err)
		}
	}
	if v, ok := transformed(t, route).part.Value.(routeValue); !ok || v.URLs[0] != newRoute().Status.URL.String() {
		t.Errorf("the Route's own URL is not first: %v", v.URLs[:1])
	}
}
