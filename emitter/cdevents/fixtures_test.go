// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// The story of the examples: a Service is created and published, a second Revision is tried with a
// tenth of the traffic, becomes primary, is rolled back, and the Service is removed.

const (
	digest1 = "sha256:3b1f9f1c9f0f6a3c8f7e4bb6f1f2f0a3d1f6a8a4c8c1f4f8b8a4c5d6e7f80912"
	digest2 = "sha256:c0ffee5d1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5"
)

var (
	cart = v1alpha1.CDEventSubjectSpec{
		APIVersion: "serving.knative.dev/v1",
		Kind:       "Service",
		Namespace:  "shop",
		Name:       "cart",
		UID:        "5f0c1d9e-3c0b-4a52-9b42-6a7f0d3e9c11",
	}
	// prod is a Cluster of Cluster API, claim one of Crossplane.
	prod = v1alpha1.CDEventSubjectSpec{
		APIVersion: "cluster.x-k8s.io/v1beta2",
		Kind:       "Cluster",
		Namespace:  "fleet",
		Name:       "prod",
		UID:        "8c1f6a52-4d0b-4a3e-b1a9-3f6c2f6b7e10",
	}
	claim = v1alpha1.CDEventSubjectSpec{
		APIVersion: "platform.example.com/v1alpha1",
		Kind:       "TeamCluster",
		Namespace:  "fleet",
		Name:       "staging",
		UID:        "d0a7d7a4-2f3b-4c55-9d58-0b7a3d9a1c22",
	}
	started = time.Date(2026, 11, 21, 9, 30, 0, 123456000, time.UTC)
)

func profile(version string) v1alpha1.Profile {
	return v1alpha1.Profile{
		SpecVersion: version,
		Rendering:   Rendering,
		Source:      "https://eu-1.example.com/knative-cdevents",
		Environment: v1alpha1.Environment{ID: "production", Source: "https://platform.example.com/environments"},
	}
}

func firstRevision() *lifecycle.Revision {
	return &lifecycle.Revision{
		Name:       "cart-00001",
		UID:        "0b7a54a1-6c0b-4f1e-8f5a-2f1f7a2b9d01",
		Generation: 1,
		Images: []lifecycle.Image{{
			Container: "user-container", // Serving's name for an unnamed container
			Image:     "registry.example.com/shop/cart:1.4.2",
			Digest:    "registry.example.com/shop/cart@" + digest1,
		}},
		Template: "a1",
		Ready:    true,
		Annotations: map[string]string{
			AnnotationCommitSHA:  "9fceb02d0ae598e95dc970b74767f19372d61af8",
			AnnotationRepository: "https://git.example.com/shop/cart",
			AnnotationBranch:     "main",
			AnnotationPipelineID: "cart-release-41",
			AnnotationDeployer:   "argocd",
		},
	}
}

func secondRevision() *lifecycle.Revision {
	return &lifecycle.Revision{
		Name:       "cart-00002",
		UID:        "c2a6d7f0-13f5-4c3e-a0a5-6f2f6f9a8e02",
		Generation: 2,
		Images: []lifecycle.Image{
			{
				Container: "cart",
				Image:     "registry.example.com/shop/cart:1.5.0",
				Digest:    "registry.example.com/shop/cart@" + digest2,
			},
			{
				Container: "proxy",
				Image:     "registry.example.com/mesh/proxy:3",
				Digest:    "registry.example.com/mesh/proxy@" + digest1,
			},
		},
		Template: "b2",
		Ready:    true,
		Annotations: map[string]string{
			AnnotationCommitSHA:   "e83c5163316f89bfbde7d9ab23ca2e25604af290",
			AnnotationRepository:  "https://git.example.com/shop/cart",
			AnnotationBranch:      "main",
			AnnotationPipelineID:  "cart-release-42",
			AnnotationDeployer:    "argocd",
			AnnotationChainID:     "7ff3f526-1a0e-4d35-8a4c-7d6295e97359",
			AnnotationLinks:       "ARTIFACT=3d3c8f7e-0a5e-4f7e-9a2a-5c9b1a7d4e60",
			AnnotationTraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		},
	}
}

func after(sequence int64) time.Time { return started.Add(time.Duration(sequence) * time.Minute) }

func linkTo(kind string, sequence int64, typ lifecycle.Type) lifecycle.Link {
	return lifecycle.Link{Kind: kind, Sequence: sequence, Time: after(sequence), Type: typ}
}

// clusterOf returns a cluster with the given number of members per Revision, which share 99 shards.
func clusterOf(settled bool, state lifecycle.ClusterState, regime string, first, second int) *lifecycle.ClusterDetails {
	c := &lifecycle.ClusterDetails{Settled: settled, ClusterStatus: lifecycle.ClusterStatus{State: state, Runtime: "pekko", Regime: regime}}
	for i, n := range []int{first, second} {
		shards := 99 * n / (first + second)
		part := lifecycle.ClusterPart{Revision: []string{"cart-00001", "cart-00002"}[i], Pods: n, Members: n, Shards: &shards}
		if state == lifecycle.ClusterForming {
			part.Shards = nil
		}
		if n > 0 {
			c.Parts = append(c.Parts, part)
		}
	}
	if !settled {
		c.Note = "shards are moving"
	}
	return c
}

// rebalanced is a cluster whose canary has its 10 shards of 100.
func rebalanced() *lifecycle.ClusterDetails {
	c := clusterOf(false, lifecycle.ClusterUpgrading, "", 2, 1)
	c.Note = "members or shards have moved"
	c.Placement = &lifecycle.Placement{Mode: lifecycle.PlacementEnforce, Moves: 10}
	for i, n := range []int{90, 10} {
		c.Parts[i].Shards, c.Parts[i].RequiredShards = &n, &n
	}
	return c
}

// failed returns the verdict on a canary that fails 5 % of its requests.
func failed() *lifecycle.Verdict {
	ratio := func(f float64) *float64 { return &f }
	return &lifecycle.Verdict{
		Run: "0d7f0f5c-6a43-4c0e-a7a8-5f6d1c2b3a49", Gate: "cart", Verdict: "Fail", Reasons: []string{"RelativeRegression"},
		Message: "errors: 4.9 % of 1224 requests of the canary, 0 % of 2210 of the baseline",
		Canary:  "cart-00002", Baseline: "cart-00001",
		Summary: verdict.Summary{
			Score: 50, Coverage: 1, CanaryRequests: 1224, BaselineRequests: 2210, RequiredShare: ratio(.1), HandledShare: ratio(.356),
			Metrics: []verdict.MetricSummary{
				{Name: "errors", Verdict: "Fail", Reason: "RelativeRegression", Canary: ratio(.049), Baseline: ratio(0)},
				{Name: "slow", Verdict: "Pass", Reason: "Negligible", Canary: ratio(0), Baseline: ratio(0)},
			},
		},
		Started: after(5), Completed: after(14),
	}
}

// provisioned returns an environment in Kubernetes 1.34.1.
func provisioned() lifecycle.Environment {
	return lifecycle.Environment{
		Provider: lifecycle.ProviderClusterAPI, Version: "v1.34.1", URL: "https://prod.fleet.example.com:6443",
		Class: "fleet/standard", Pools: []string{"general", "gpu"},
	}
}

// environmentStory returns the transitions of an environment, and the first of another one.
func environmentStory(first int64) []lifecycle.Transition {
	pipeline := map[string]string{AnnotationCommitSHA: "9fceb02d0ae598e95dc970b74767f19372d61af8", AnnotationRepository: "https://git.example.com/platform/fleet"}
	declared, upgraded := provisioned(), provisioned()
	declared.URL = ""
	upgraded.Version = "v1.35.0"
	before := provisioned()
	details := func(e lifecycle.Environment) *lifecycle.EnvironmentDetails {
		return &lifecycle.EnvironmentDetails{Environment: e}
	}
	modified := details(upgraded)
	modified.Previous, modified.Changed = &before, []string{"version"}
	return []lifecycle.Transition{
		{Type: lifecycle.ClusterAPIClusterCreated, Generation: 1, Chain: first, Annotations: pipeline, Environment: details(declared)},
		{
			Type: lifecycle.EnvironmentCreated, Generation: 2, Chain: first, Annotations: pipeline, Environment: details(provisioned()),
			Links: []lifecycle.Link{linkTo(lifecycle.LinkPath, first, lifecycle.ClusterAPIClusterCreated)},
		},
		{
			Type: lifecycle.EnvironmentModified, Generation: 3, Chain: first + 2, Annotations: pipeline, Environment: modified,
			Links: []lifecycle.Link{linkTo(lifecycle.LinkPath, first+1, lifecycle.EnvironmentCreated)},
		},
		{
			Type: lifecycle.EnvironmentDeleted, Generation: 3, Chain: first + 3, Annotations: pipeline, Environment: details(upgraded),
			Links: []lifecycle.Link{linkTo(lifecycle.LinkPath, first+2, lifecycle.EnvironmentModified)},
		},
		{
			Type: lifecycle.CrossplaneClusterCreated, Generation: 1, Chain: first + 4,
			Environment: details(lifecycle.Environment{ID: "staging", Provider: lifecycle.ProviderCrossplane, Region: "eu-north-1", Class: "team-clusters.aws.platform.example.com"}),
		},
	}
}

// story returns the transitions, one of each type, in order.
func story() []lifecycle.Transition {
	first, second := firstRevision(), secondRevision()
	all := []lifecycle.Share{{Revision: first.Name, Percent: 100}}
	split := []lifecycle.Share{{Revision: first.Name, Percent: 90}, {Revision: second.Name, Percent: 10}}
	moved := []lifecycle.Share{{Revision: second.Name, Percent: 100}}
	urls := []string{"https://cart.shop.example.com"}
	transitions := []lifecycle.Transition{
		{Type: lifecycle.Created, Generation: 1, Chain: 1},
		{
			Type: lifecycle.Deployed, Generation: 1, Chain: 1, Revision: first, Traffic: all,
			Links: []lifecycle.Link{linkTo(lifecycle.LinkPath, 1, lifecycle.Created)},
		},
		{
			Type: lifecycle.Published, Generation: 1, Chain: 1, Revision: first, Traffic: all, URLs: urls,
			Links: []lifecycle.Link{linkTo(lifecycle.LinkPath, 2, lifecycle.Deployed)},
		},
		{
			Type: lifecycle.RevisionReady, Generation: 2, Chain: 4, Revision: second, Traffic: all, URLs: urls,
			Links: []lifecycle.Link{linkTo(lifecycle.LinkPath, 2, lifecycle.Deployed)},
		},
		{
			Type: lifecycle.TrafficShifted, Generation: 3, Chain: 4, Revision: second, Previous: first,
			Traffic: split, PreviousTraffic: all, URLs: urls,
			Links: []lifecycle.Link{linkTo(lifecycle.LinkPath, 2, lifecycle.Deployed)},
		},
		{
			Type: lifecycle.Upgraded, Generation: 4, Chain: 4, Revision: second, Previous: first,
			Traffic: moved, PreviousTraffic: split, URLs: urls,
			Links: []lifecycle.Link{linkTo(lifecycle.LinkPath, 2, lifecycle.Deployed)},
		},
		{
			Type: lifecycle.RolledBack, Reason: lifecycle.ReasonTraffic, Generation: 5, Chain: 4,
			Revision: first, Previous: second, Traffic: all, PreviousTraffic: moved, URLs: urls,
			Links: []lifecycle.Link{
				linkTo(lifecycle.LinkPath, 6, lifecycle.Upgraded),
				linkTo(lifecycle.LinkUndoes, 6, lifecycle.Upgraded),
			},
		},
		{
			Type: lifecycle.IncidentDetected, Generation: 5, Chain: 8, Revision: first, Traffic: all, URLs: urls,
			Incident: &lifecycle.IncidentDetails{
				Kind: lifecycle.Outage, Opened: 8, Since: after(7),
				Trouble: lifecycle.Trouble{Reason: "RevisionMissing", Message: `Revision "cart-00001" referenced in traffic not found.`},
			},
			Links: []lifecycle.Link{linkTo(lifecycle.LinkPath, 7, lifecycle.RolledBack)},
		},
		{
			Type: lifecycle.IncidentResolved, Generation: 5, Chain: 9, Revision: first, Traffic: all, URLs: urls,
			Incident: &lifecycle.IncidentDetails{Kind: lifecycle.Outage, Opened: 8, Since: after(7)},
			Links:    []lifecycle.Link{linkTo(lifecycle.LinkPath, 8, lifecycle.IncidentDetected)},
		},
		{
			Type: lifecycle.Removed, Generation: 5, Chain: 1, Revision: first, Traffic: all, URLs: urls,
			Links: []lifecycle.Link{linkTo(lifecycle.LinkPath, 7, lifecycle.RolledBack)},
		},
		// Another story, of a Service whose pods are a stateful cluster.
		{
			Type: lifecycle.ClusterFormed, Generation: 1, Chain: 1, Revision: first,
			Cluster: clusterOf(false, lifecycle.ClusterForming, "", 2, 0),
			Links:   []lifecycle.Link{linkTo(lifecycle.LinkPath, 1, lifecycle.Created)},
		},
		{
			Type: lifecycle.ClusterSettled, Generation: 3, Chain: 4, Revision: second, Traffic: split, URLs: urls,
			Cluster: clusterOf(true, lifecycle.ClusterUpgrading, lifecycle.RegimeRebalancing, 2, 1),
			Links:   []lifecycle.Link{linkTo(lifecycle.LinkPath, 2, lifecycle.Deployed)},
		},
		{
			Type: lifecycle.ClusterUnsettled, Generation: 3, Chain: 4, Revision: second, Traffic: split, URLs: urls,
			Cluster: clusterOf(false, lifecycle.ClusterUpgrading, "", 2, 1),
			Links:   []lifecycle.Link{linkTo(lifecycle.LinkPath, 2, lifecycle.Deployed)},
		},
		{
			Type: lifecycle.ClusterRemoved, Reason: lifecycle.ReasonRemoved, Generation: 5, Chain: 1, Revision: first, Traffic: all, URLs: urls,
			Cluster: &lifecycle.ClusterDetails{ClusterStatus: lifecycle.ClusterStatus{Runtime: "pekko"}},
			Links:   []lifecycle.Link{linkTo(lifecycle.LinkPath, 7, lifecycle.RolledBack)},
		},
		// A gate has judged the canary.
		{
			Type: lifecycle.Judged, Generation: 3, Chain: 4, Revision: second, Previous: first, Traffic: split, URLs: urls,
			Verdict: failed(),
			Links:   []lifecycle.Link{linkTo(lifecycle.LinkPath, 5, lifecycle.TrafficShifted)},
		},
		{
			Type: lifecycle.ClusterRebalanced, Generation: 3, Chain: 4, Revision: second, Traffic: split, URLs: urls,
			Cluster: rebalanced(),
			Links:   []lifecycle.Link{linkTo(lifecycle.LinkPath, 2, lifecycle.Deployed)},
		},
	}
	transitions = append(transitions, environmentStory(int64(len(transitions)+1))...)
	for i := range transitions {
		transitions[i].Sequence = int64(i + 1)
		transitions[i].Time = after(transitions[i].Sequence)
	}
	return transitions
}

// transitionOf returns the story's transition of this type.
func transitionOf(t *testing.T, typ lifecycle.Type) lifecycle.Transition {
	t.Helper()
	for _, tr := range story() {
		if tr.Type == typ {
			return tr
		}
	}
	t.Fatalf("no transition of type %s in the story", typ)
	return lifecycle.Transition{}
}

// subjectOf returns the object that a transition of the story is about.
func subjectOf(tr lifecycle.Transition) v1alpha1.CDEventSubjectSpec {
	switch {
	case tr.Environment == nil:
		return cart
	case tr.Environment.Provider == lifecycle.ProviderCrossplane:
		return claim
	}
	return prod
}

func render(t *testing.T, p v1alpha1.Profile, tr lifecycle.Transition) event.Event {
	t.Helper()
	e, err := Render(p, subjectOf(tr), tr)
	if err != nil {
		t.Fatal(err)
	}
	return e.Event
}

// each runs a test for each type in each version.
func each(t *testing.T, test func(t *testing.T, version string, tr lifecycle.Transition)) {
	t.Helper()
	for _, version := range []string{Version05, Version04} {
		for _, tr := range story() {
			t.Run(version+"/"+string(tr.Type), func(t *testing.T) { test(t, version, tr) })
		}
	}
}
