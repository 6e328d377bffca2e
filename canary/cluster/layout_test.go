// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

func TestLayout(t *testing.T) {
	t.Parallel()
	c := newFakeCluster(v1alpha1.RuntimePekko)
	c.pod("10.0.0.1", 1)
	leaving := c.pod("10.0.0.2", 1)
	c.pod("10.0.0.3", 2)
	c.pod("10.0.0.4", 2)
	leaving.Deleting = true
	if got := LayoutOf("uid", c.pods, nil); got.UID != "uid" || got.Members != nil || got.Owners != nil {
		t.Errorf("layout of a cluster that asks for no plan: %+v", got)
	}
	c.pods[2].Declared.Placement = v1alpha1.PlacementEnforce
	node := func(ip string) string { return "pekko://cart@" + ip + ":7355" }
	seen := Members{
		SelfNode: node("10.0.0.1"),
		Oldest:   node("10.0.0.2"),
		Members: []Member{
			{Node: node("10.0.0.1"), Status: "Up"},
			{Node: node("10.0.0.2"), Status: "Up"},
			{Node: node("10.0.0.3"), Status: "Joining"},
			{Node: node("10.0.0.4"), Status: "Up"},
			{Node: node("10.0.0.8"), Status: "Removed"},
			{Node: node("10.0.0.9"), Status: "Up"},
		},
		Unreachable: []Unreachable{{Node: node("10.0.0.4")}},
	}
	// The next node has newer information.
	further := Members{
		SelfNode: node("10.0.0.3"), Oldest: node("10.0.0.2"),
		Members: []Member{{Node: node("10.0.0.3"), Status: "Up"}},
	}
	got := LayoutOf("uid", c.pods, map[string]Answer{
		"10.0.0.1": {Members: seen, Shards: map[string][]string{"Cart": {"0", "7"}, "Order": {}}},
		"10.0.0.3": {Members: further, Shards: map[string][]string{"Cart": {"1"}}},
	})
	want := Layout{
		UID: "uid", Declared: c.pods[2].Declared, Oldest: node("10.0.0.2"),
		Members: []LayoutMember{
			{Address: node("10.0.0.1"), Pod: "pod-10.0.0.1", Revision: "cart-00001", Status: "Up"},
			// its pod is being deleted
			{Address: node("10.0.0.2"), Pod: "pod-10.0.0.2", Revision: "cart-00001", Status: "Leaving"},
			{
				Address: node("10.0.0.3"), Pod: "pod-10.0.0.3", Revision: "cart-00002", Status: "Up",
				Placement: v1alpha1.PlacementEnforce,
			},
			{Address: node("10.0.0.4"), Pod: "pod-10.0.0.4", Revision: "cart-00002", Status: "Up", Unreachable: true},
		},
		Owners: map[string]map[string]string{
			"Cart":  {"0": node("10.0.0.1"), "7": node("10.0.0.1"), "1": node("10.0.0.3")},
			"Order": {},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestHost(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"pekko://cart@10.0.0.7:7355":              "10.0.0.7",
		"pekko://cart@cart-0.shop:7355":           "cart-0.shop",
		"pekko://cart@[fd00::7]:7355":             "fd00::7",
		"pekko://cart@[fd00:0:0:0:0:0:0:7]:7355":  "fd00::7",
		"akka.tcp://cart@fd00:0:0:0:0:0:0:7:2552": "fd00::7",
	} {
		if got := host(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

func TestPlacementBecomesAPartOfTheCluster(t *testing.T) {
	t.Parallel()
	c := lifecycle.Cluster{}
	c.Parts = []lifecycle.ClusterPart{{Revision: "cart-00001"}, {Revision: "cart-00002"}, {Revision: "cart-00003"}}
	(*Placement)(nil).AddTo(&c)
	if c.Placement != nil {
		t.Error("what is unknown is known")
	}
	(&Placement{
		Placement: lifecycle.Placement{Mode: lifecycle.PlacementEnforce, Pending: 3},
		Required:  map[string]int{"cart-00001": 95, "cart-00002": 5},
	}).AddTo(&c)
	if c.Placement.Pending != 3 || *c.Parts[0].RequiredShards != 95 || *c.Parts[1].RequiredShards != 5 ||
		c.Parts[2].RequiredShards != nil {
		t.Errorf("got %+v, parts %+v", c.Placement, c.Parts)
	}
}
