package service

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// routeValue is what the caches hold, packed, of a Route.
type routeValue struct {
	// Owner is the UID of the Service that the Route belongs to.
	Owner types.UID
	lifecycle.Route
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
