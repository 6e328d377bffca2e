// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"hash/adler32"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"
	"knative.dev/pkg/network"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	"knative.dev/serving/pkg/reconciler/route/resources/names"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/lifecycle/traffic"
)

// routeValue is what the caches hold of a Route.
type routeValue struct {
	// Owner is the UID of the Service that the Route belongs to.
	Owner types.UID
	lifecycle.Route
}

// reasonRollout is why a Route is not Ready during a gradual rollout.
const reasonRollout = "RolloutInProgress"

// RouteOf returns what is known of a Route by itself, without DomainMappings.
func RouteOf(o *servingv1.Route) lifecycle.Route {
	return projector{clusterDomain: network.GetClusterDomainName()}.route(o, "").Route
}

func (p projector) route(o *servingv1.Route, owner types.UID) routeValue {
	current := o.Status.ObservedGeneration == o.Generation
	ingress := o.Status.GetCondition(servingv1.RouteConditionIngressReady)
	rollout := ingress != nil && ingress.IsUnknown() && ingress.Reason == reasonRollout && rolling(o.Status.Traffic)
	assigned := o.Status.GetCondition(servingv1.RouteConditionAllTrafficAssigned)
	v := routeValue{Owner: owner, Route: lifecycle.Route{
		Rollout:   current && rollout,
		Effective: o.IsReady() || current && (rollout || assigned.IsTrue() && ingress.IsTrue()),
		Trouble:   routeTrouble(ingress, assigned),
		Traffic:   traffic.Split(o.Status.Traffic),
	}}
	var tagged []string
	waits := uncertified(o)
	for _, t := range o.Status.Traffic {
		if t.Tag != "" {
			tagged = p.public(tagged, t.URL)
		}
	}
	slices.Sort(tagged)
	v.URLs = lifecycle.BoundURLs(append(p.public(nil, o.Status.URL), slices.Compact(tagged)...))
	for _, u := range v.URLs {
		if waits(u) {
			v.Uncertified = append(v.Uncertified, u)
		}
	}
	return v
}

// routeTrouble is what the conditions of a Route say is wrong, each of something else: the ingress of the way to the
// Service, the assignment of the traffic that was asked for. Of certificates, see uncertified.
func routeTrouble(ingress, assigned *apis.Condition) map[lifecycle.Incident]*lifecycle.Trouble {
	if ingress == nil {
		return nil
	}
	out := map[lifecycle.Incident]*lifecycle.Trouble{}
	for kind, c := range map[lifecycle.Incident]*apis.Condition{
		lifecycle.Outage:        ingress,
		lifecycle.FailedRollout: assigned,
	} {
		if t := troubleOf(c); t != nil {
			out[kind] = t
		}
	}
	return out
}

// uncertified tells the URLs of a Route that wait for their certificate. Serving has one condition for all of them,
// which names one certificate (serving v0.50.0, route.go: externalDomainTLS). If it is not known whose that is, all
// with https wait. With http, none does: Serving serves them without.
func uncertified(o *servingv1.Route) func(url string) bool {
	c := o.Status.GetCondition(servingv1.RouteConditionCertificateProvisioned)
	if c == nil || c.IsTrue() {
		return func(string) bool { return false }
	}
	secure := func(u string) bool { return strings.HasPrefix(u, "https://") }
	named := func(certificate string) bool { return slices.Contains(strings.Fields(c.Message), certificate) }
	main := names.Certificate(o)
	if named(main) && o.Status.URL != nil {
		return func(u string) bool { return secure(u) && u == o.Status.URL.String() }
	}
	for _, t := range o.Status.Traffic {
		// As Serving names the certificate of a tag.
		if t.Tag != "" && t.URL != nil && named(fmt.Sprint(main, "-", adler32.Checksum([]byte(t.Tag)))) {
			return func(u string) bool { return secure(u) && u == t.URL.String() }
		}
	}
	return secure
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
	if strings.HasSuffix(host, ".svc."+p.clusterDomain) || strings.HasSuffix(host, ".svc") ||
		!strings.Contains(host, ".") {
		return to
	}
	return append(to, u.String())
}
