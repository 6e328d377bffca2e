// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"hash/adler32"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

func TestProjectRoute(t *testing.T) {
	s := transformed(t, newRoute())
	want := routeValue{Owner: "uid-cart", Route: lifecycle.Route{
		Effective: true, Trouble: map[lifecycle.Incident]*lifecycle.Trouble{},
		Traffic: []lifecycle.Share{{Revision: "cart-00001", Percent: 90}, {Revision: "cart-00002", Percent: 10}},
		URLs:    []string{"http://cart.shop.example.com", "http://canary-cart.shop.example.com"},
	}}
	if !reflect.DeepEqual(s.part.Value, want) || s.service != "cart" || s.part.Owner != "uid-cart" {
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
		"ready": {
			is(corev1.ConditionTrue, "", apis.ConditionReady),
			is(corev1.ConditionTrue, "", servingv1.RouteConditionIngressReady), 2, true, false,
		},
		"gradual rollout": {
			is(unknown, "RolloutInProgress", apis.ConditionReady),
			is(unknown, "RolloutInProgress", servingv1.RouteConditionIngressReady), 2, true, true,
		},
		"ingress not configured": {
			is(unknown, "IngressNotConfigured", apis.ConditionReady),
			is(unknown, "IngressNotConfigured", servingv1.RouteConditionIngressReady), 2, false, false,
		},
		"revision missing": {
			is(no, "RevisionMissing", apis.ConditionReady),
			is(corev1.ConditionTrue, "", servingv1.RouteConditionIngressReady), 2, false, false,
		},
		"status lags behind": {
			is(corev1.ConditionTrue, "", apis.ConditionReady),
			is(corev1.ConditionTrue, "", servingv1.RouteConditionIngressReady), 3, false, false,
		},
		"gradual rollout, status lags": {
			is(unknown, "RolloutInProgress", apis.ConditionReady),
			is(unknown, "RolloutInProgress", servingv1.RouteConditionIngressReady), 3, false, false,
		},
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
			is(corev1.ConditionUnknown, reasonRollout, apis.ConditionReady),
			is(corev1.ConditionUnknown, reasonRollout, servingv1.RouteConditionIngressReady),
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

func TestDomainMappingsAddURLs(t *testing.T) {
	parts := observer.Parts{}
	for _, obj := range []any{newService(), newRoute(), newDomain()} {
		p := transformed(t, obj).part
		parts[p.Name] = p
	}
	urls := Compose(parts).Snapshot.Route.URLs
	route, ok := parts[partRoute].Value.(routeValue)
	if !ok || !slices.Contains(urls, "https://cart.example.com") || urls[0] != route.URLs[0] ||
		len(urls) != len(route.URLs)+1 {
		t.Errorf("%q", urls)
	}
	if got := lifecycle.WithURLs(nil, []string{"https://b", "https://a", "https://b"}); !slices.Equal(got,
		[]string{"https://a", "https://b"}) {
		t.Errorf("%q", got)
	}
}

// A certificate decides about its own URL. The split and the way to the Service do not wait for it.
func TestCertificateOfATagIsPending(t *testing.T) {
	r := newRoute()
	r.Status.Traffic[1].URL = mustURL("https://canary-cart.shop.example.com")
	certificate := is(corev1.ConditionUnknown, "CertificateNotReady", servingv1.RouteConditionCertificateProvisioned)
	for name, c := range map[string]struct {
		certificate string
		waits       []string
	}{
		"of the tag": {
			fmt.Sprint("route-uid-cart-", adler32.Checksum([]byte("canary"))),
			[]string{"https://canary-cart.shop.example.com"},
		},
		"of the Service": {"route-uid-cart", []string{"https://cart.shop.example.com"}},
		"of an unknown owner": {"wildcard", []string{
			"https://cart.shop.example.com",
			"https://canary-cart.shop.example.com",
		}},
	} {
		certificate.Message = "Certificate " + c.certificate + " is not ready: Pending"
		r.Status.URL = mustURL("https://cart.shop.example.com")
		r.Status.Conditions = duckv1.Conditions{
			is(corev1.ConditionUnknown, "CertificateNotReady", apis.ConditionReady), certificate,
			is(corev1.ConditionTrue, "", servingv1.RouteConditionAllTrafficAssigned),
			is(corev1.ConditionTrue, "", servingv1.RouteConditionIngressReady),
		}
		v, ok := transformed(t, r).part.Value.(routeValue)
		if !ok || !v.Effective || len(v.Trouble) > 0 || !slices.Equal(v.Uncertified, c.waits) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
