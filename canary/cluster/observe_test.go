// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// fakeCluster holds the pods of a cluster, and the answer of each by its IP address.
type fakeCluster struct {
	runtime v1alpha1.Runtime
	pods    []*Pod
	answers map[string]Answer
}

func newFakeCluster(r v1alpha1.Runtime) *fakeCluster {
	return &fakeCluster{runtime: r, answers: map[string]Answer{}}
}

// pod adds a Ready pod of the Revision with this number.
func (s *fakeCluster) pod(ip string, revision int64) *Pod {
	d := v1alpha1.Stateful{Runtime: s.runtime}
	if s.runtime == v1alpha1.RuntimePekko || s.runtime == v1alpha1.RuntimeCloudstate {
		d.ManagementPort = 7626
	}
	p := &Pod{
		Name: "pod-" + ip, UID: types.UID(ip), IP: ip, Revision: fmt.Sprintf("cart-%05d", revision), Generation: revision,
		Ready:    true,
		Declared: d,
	}
	s.pods = append(s.pods, p)
	return p
}

func at(ip string) string { return "pekko://shop@" + ip + ":25520" }

// say makes each of the pods answer that all of them are up.
func (s *fakeCluster) say(ips ...string) {
	for _, self := range ips {
		m := Members{SelfNode: at(self), Oldest: at(ips[0])}
		for _, ip := range ips {
			m.Members = append(m.Members, Member{Node: at(ip), Status: "Up"})
		}
		s.answers[self] = Answer{Members: m, Shards: s.answers[self].Shards}
	}
}

// hold makes a pod answer that it holds these shards.
func (s *fakeCluster) hold(ip string, shards ...string) {
	a := s.answers[ip]
	a.Shards = map[string][]string{"Cart": shards}
	s.answers[ip] = a
}

func (s *fakeCluster) observe() Observation { return Observe(s.pods, s.answers, 0) }

func three() *fakeCluster {
	s := newFakeCluster(v1alpha1.RuntimePekko)
	s.pod("10.0.0.1", 1)
	s.pod("10.0.0.2", 1)
	s.pod("10.0.0.3", 2)
	s.say("10.0.0.1", "10.0.0.2", "10.0.0.3")
	s.hold("10.0.0.1", "1", "2")
	s.hold("10.0.0.2", "3")
	s.hold("10.0.0.3")
	return s
}

func TestClusterStates(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*fakeCluster)
		state  lifecycle.ClusterState
		says   string
	}{
		"two Revisions": {func(*fakeCluster) {}, lifecycle.ClusterUpgrading, ""},
		"one Revision": {
			func(s *fakeCluster) { s.pods = s.pods[:2]; s.say("10.0.0.1", "10.0.0.2") },
			lifecycle.ClusterReady, "",
		},
		"no pods": {func(s *fakeCluster) { s.pods = nil }, lifecycle.ClusterScaledToZero, ""},
		"the last pods are being deleted": {func(s *fakeCluster) {
			for _, p := range s.pods {
				p.Deleting = true
			}
		}, lifecycle.ClusterScaledToZero, ""},
		"none has joined": {func(s *fakeCluster) {
			for ip := range s.answers {
				s.answers[ip] = Answer{Members: Members{SelfNode: at(ip)}}
			}
		}, lifecycle.ClusterForming, ""},
		"no pod answers": {func(s *fakeCluster) {
			for ip := range s.answers {
				s.answers[ip] = Answer{Err: errors.New("connection refused")}
			}
		}, lifecycle.ClusterUnknown, "3 of 3 pods did not answer completely: connection refused"},
		"no cluster-http": {func(s *fakeCluster) {
			for ip := range s.answers {
				s.answers[ip] = Answer{Err: fmt.Errorf("GET: %w", ErrNoRoute)}
			}
		}, lifecycle.ClusterUnknown, "class path"},
		"one pod does not answer": {
			func(s *fakeCluster) { s.answers["10.0.0.2"] = Answer{Err: errors.New("500")} },
			lifecycle.ClusterUpgrading, "1 of 3 pods did not answer completely: 500",
		},
		"unreachable": {func(s *fakeCluster) {
			a := s.answers["10.0.0.1"]
			a.Members.Unreachable = []Unreachable{{Node: at("10.0.0.3")}}
			s.answers["10.0.0.1"] = a
		}, lifecycle.ClusterDegraded, "members that others cannot reach: " + at("10.0.0.3")},
		"split by Revision": {
			func(s *fakeCluster) { s.say("10.0.0.1", "10.0.0.2"); s.say("10.0.0.3") },
			lifecycle.ClusterIsSplit, "pekko.discovery.kubernetes-api.pod-label-selector",
		},
		"split across Revisions": {
			func(s *fakeCluster) { s.say("10.0.0.1"); s.say("10.0.0.2", "10.0.0.3") },
			lifecycle.ClusterIsSplit, "2 separate clusters: [pod-10.0.0.1] [pod-10.0.0.2 pod-10.0.0.3]",
		},
		"split in one Revision": {func(s *fakeCluster) {
			s.pods = s.pods[:2]
			s.say("10.0.0.1")
			s.say("10.0.0.2")
		}, lifecycle.ClusterIsSplit, "2 separate clusters"},
	} {
		s := three()
		c.change(s)
		o := s.observe()
		if o.seen.State != c.state || !strings.Contains(o.seen.Note, c.says) || c.says == "" && o.seen.Note != "" {
			t.Errorf("%s: %s, %q", name, o.seen.State, o.seen.Note)
		}
		byRevision := o.split != nil && o.split.Reason == "SplitByRevision"
		if byRevision != (name == "split by Revision") {
			t.Errorf("%s: %+v", name, o.split)
		}
	}
}

func TestRemedyNamesTheRuntimesSetting(t *testing.T) {
	t.Parallel()
	for r, says := range map[v1alpha1.Runtime]string{
		v1alpha1.RuntimeAkka: "akka.discovery", v1alpha1.RuntimePekko: "pekko.discovery",
		v1alpha1.RuntimeCloudstate: "SELECTOR_LABEL",
	} {
		if got := remedy(r); !strings.Contains(got, says) || !strings.Contains(got, "serving.knative.dev/service=%s") ||
			!strings.Contains(got, "app=%s") {
			t.Errorf("%s: %s", r, got)
		}
	}
}

func TestClusterParts(t *testing.T) {
	t.Parallel()
	s := three()
	o := s.observe()
	if len(o.seen.Parts) != 2 || o.newest != "cart-00002" || !o.complete || o.seen.Runtime != "pekko" {
		t.Fatalf("%+v", o)
	}
	for i, want := range []struct{ pods, members, shards int }{{2, 2, 3}, {1, 1, 0}} {
		if p := o.seen.Parts[i]; p.Pods != want.pods || p.Members != want.members || p.Shards == nil ||
			*p.Shards != want.shards {
			t.Errorf("%+v", p)
		}
	}
	s.answers["10.0.0.2"] = Answer{Members: s.answers["10.0.0.2"].Members, Err: errors.New("500")}
	if o := s.observe(); o.complete || o.seen.Parts[0].Shards != nil || o.seen.Parts[0].Members != 2 {
		t.Errorf("with unknown shards: %+v", o.seen.Parts)
	}
	s = three()
	s.hold("10.0.0.3", "3") // which 10.0.0.2 claims too
	if o := s.observe(); o.complete {
		t.Error("the observation is complete although two members claim the same shard")
	}
	s = three()
	for ip := range s.answers {
		s.hold(ip)
	}
	if o := s.observe(); !o.complete || o.seen.Parts[0].Shards != nil {
		t.Error("empty answers count as zero shards; want unknown")
	}
}

// A pod that never starts, as with an image that does not exist, must not keep the others from following a new split.
func TestPodThatNeverStarts(t *testing.T) {
	t.Parallel()
	refused := Answer{Err: errors.New("connection refused")}
	for name, c := range map[string]struct {
		change func(s *fakeCluster, starts *Pod)
		whole  bool
	}{
		"it does not answer": {func(*fakeCluster, *Pod) {}, true},
		"it was not asked":   {func(s *fakeCluster, p *Pod) { delete(s.answers, p.IP) }, true},
		"it has not joined": {func(s *fakeCluster, p *Pod) {
			s.answers[p.IP] = Answer{Members: Members{SelfNode: at(p.IP)}, Err: errors.New("404")}
		}, true},
		"it is Ready":              {func(_ *fakeCluster, p *Pod) { p.Ready = true }, false},
		"another one knows it":     {func(s *fakeCluster, p *Pod) { s.knows("10.0.0.2", p.IP, "Joining") }, false},
		"another one knew it":      {func(s *fakeCluster, p *Pod) { s.knows("10.0.0.2", p.IP, "Removed") }, true},
		"a member does not answer": {func(s *fakeCluster, _ *Pod) { s.answers["10.0.0.1"] = refused }, false},
		"no pod answers":           {func(s *fakeCluster, _ *Pod) { clear(s.answers) }, false},
	} {
		s := newFakeCluster(v1alpha1.RuntimePekko)
		for i, ip := range []string{"10.0.0.1", "10.0.0.2"} {
			s.pod(ip, int64(i+1)).Declared.Placement = v1alpha1.PlacementEnforce
		}
		s.say("10.0.0.1", "10.0.0.2")
		starts := s.pod("10.0.0.3", 3)
		starts.Ready = false
		s.answers[starts.IP] = refused
		c.change(s, starts)
		o := s.observe()
		if o.Whole() != c.whole || o.complete != c.whole {
			t.Errorf("%s: whole %v, complete %v: %+v", name, o.Whole(), o.complete, o)
		}
		if !c.whole {
			continue
		}
		if o.starting[starts.IP] == "" {
			t.Errorf("%s: the cluster may count as settled", name)
		}
		if l := LayoutOf("uid", s.pods, s.answers); len(l.Members) != 2 || l.Oldest != at("10.0.0.1") ||
			l.Declared.Placement != v1alpha1.PlacementEnforce {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

// knows makes a pod list another one.
func (s *fakeCluster) knows(ip, other, status string) {
	a := s.answers[ip]
	a.Members.Members = append(a.Members.Members, Member{Node: at(other), Status: status})
	s.answers[ip] = a
}

func TestLaggingMembers(t *testing.T) {
	t.Parallel()
	s := three()
	s.pod("10.0.0.4", 2)
	s.pod("10.0.0.5", 2).Ready = false
	s.answers["10.0.0.4"], s.answers["10.0.0.5"] = Answer{Members: Members{SelfNode: at("10.0.0.4")}},
		Answer{Members: Members{SelfNode: at("10.0.0.5")}}
	a := s.answers["10.0.0.1"]
	a.Members.Members = append(a.Members.Members, Member{Node: at("10.0.0.9"), Status: "Leaving"},
		Member{Node: at("10.0.0.8"), Status: "Removed"})
	s.answers["10.0.0.1"] = a
	o := s.observe()
	if len(o.lagging) != 2 || len(o.starting) != 1 || o.lagging[at("10.0.0.9")] == "" || o.lagging["10.0.0.4"] == "" ||
		len(o.seen.Parts) != 2 || o.seen.Parts[1].Pods != 2 {
		t.Errorf("%+v", o)
	}
}

func TestRuntimesWithoutManagementAPI(t *testing.T) {
	t.Parallel()
	s := newFakeCluster(v1alpha1.RuntimeCustom)
	s.pod("10.0.0.1", 1)
	s.pod("10.0.0.2", 2).Ready = false
	if o := s.observe(); o.seen.State != lifecycle.ClusterReady || len(o.members) != 1 || len(o.starting) != 1 ||
		!o.complete {
		t.Errorf("%+v", o)
	}
	s = newFakeCluster(v1alpha1.RuntimeProtoActor)
	one, two := s.pod("10.0.0.1", 1), s.pod("10.0.0.2", 2)
	one.MemberID, one.ClusterName = "a", "shop"
	if o := s.observe(); o.seen.State != lifecycle.ClusterReady || len(o.lagging) != 1 {
		t.Errorf("only one is a member: %+v", o)
	}
	two.MemberID, two.ClusterName = "b", "shop"
	if o := s.observe(); o.seen.State != lifecycle.ClusterUpgrading || len(o.lagging) != 0 {
		t.Errorf("both are members: %+v", o)
	}
	two.ClusterName = "shop-2"
	if o := s.observe(); o.seen.State != lifecycle.ClusterIsSplit || o.split.Reason != "ClusterNamesDiffer" ||
		!strings.Contains(o.seen.Note, "shop, shop-2") {
		t.Errorf("two clusters: %+v", o)
	}
}

// The addresses of other runtimes have no scheme, and their remedies are their own.
func TestOtherRuntimesWithManagementAPI(t *testing.T) {
	t.Parallel()
	for _, r := range []v1alpha1.Runtime{v1alpha1.RuntimeProtoActor, v1alpha1.RuntimeCustom} {
		s := newFakeCluster(r)
		for i, ip := range []string{"10.0.0.1", "10.0.0.2"} {
			s.pod(ip, int64(i+1))
			s.pods[i].Declared.ManagementPort = 9099
			s.pods[i].Declared.Placement = v1alpha1.PlacementEnforce
		}
		node := func(ip string) Member { return Member{Node: ip + ":6331", Status: "Up"} }
		both := []Member{node("10.0.0.1"), node("10.0.0.2")}
		s.answers["10.0.0.1"] = Answer{
			Members: Members{SelfNode: "10.0.0.1:6331", Members: both},
			Shards:  map[string][]string{"Cart": {"0", "1"}},
		}
		s.answers["10.0.0.2"] = Answer{
			Members: Members{SelfNode: "10.0.0.2:6331", Members: both},
			Shards:  map[string][]string{"Cart": {"2"}},
		}
		o := s.observe()
		if o.seen.State != lifecycle.ClusterUpgrading || !o.complete || len(o.members) != 2 ||
			o.seen.Parts[0].Shards == nil || *o.seen.Parts[0].Shards != 2 {
			t.Errorf("%s: %+v", r, o)
		}
		l := LayoutOf("uid", s.pods, s.answers)
		if len(l.Members) != 2 || l.Members[1].Address != "10.0.0.2:6331" || l.Owners["Cart"]["2"] != "10.0.0.2:6331" {
			t.Errorf("%s: %+v", r, l)
		}
		for ip := range s.answers {
			s.answers[ip] = Answer{Members: Members{SelfNode: ip + ":6331", Members: []Member{node(ip)}}}
		}
		if o := s.observe(); o.split == nil || o.split.Reason != "SplitByRevision" ||
			!strings.Contains(o.split.Message, "the same name in all Revisions") {
			t.Errorf("%s, split: %+v", r, o.split)
		}
		for ip := range s.answers {
			s.answers[ip] = Answer{Err: fmt.Errorf("GET: %w", ErrNoRoute)}
		}
		if o := s.observe(); !strings.Contains(o.seen.Note, "check that it is the port where") {
			t.Errorf("%s, another port: %q", r, o.seen.Note)
		}
	}
}
