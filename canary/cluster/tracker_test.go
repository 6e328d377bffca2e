// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// trackerTest polls a fake cluster every five seconds.
type trackerTest struct {
	t *Tracker
	s *fakeCluster
	// now is the time of the last poll.
	now time.Time
}

func newTrackerTest(s *fakeCluster) *trackerTest {
	return &trackerTest{t: &Tracker{}, s: s, now: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)}
}

func (l *trackerTest) poll(times int) lifecycle.Cluster {
	var c lifecycle.Cluster
	for range times {
		l.now = l.now.Add(5 * time.Second)
		c = l.t.Next(l.s.observe(), l.now)
	}
	return c
}

func TestClusterSettles(t *testing.T) {
	t.Parallel()
	l := newTrackerTest(three())
	if c := l.poll(3); c.Settled || c.Note != "members or shards have moved" {
		t.Errorf("between two rounds of rebalancing: %+v", c)
	}
	settled := l.poll(1)
	if !settled.Settled || settled.Note != "" {
		t.Errorf("%+v", settled)
	}
	if again := l.poll(1); !reflect.DeepEqual(settled, again) {
		t.Errorf("the state changes although nothing has changed: %+v", again)
	}
	l.s.hold("10.0.0.2") // a busy region: its shards are unknown, not gone
	if c := l.poll(1); !c.Settled {
		t.Errorf("a busy region: %+v", c)
	}
	l.s.hold("10.0.0.3", "3") // the shard has moved
	if c := l.poll(1); c.Settled {
		t.Error("still settled after a shard has moved")
	}
	if c := l.poll(3); !c.Settled {
		t.Errorf("%+v", c)
	}
	l.s.hold("10.0.0.1", "1", "2", "9")
	if c := l.poll(1); c.Settled {
		t.Error("still settled after a new shard has appeared")
	}
	l.poll(3)
	l.s.answers["10.0.0.2"] = Answer{Members: l.s.answers["10.0.0.2"].Members, Err: errors.New("500")}
	if c := l.poll(1); c.Settled || c.State != lifecycle.ClusterUpgrading {
		t.Errorf("one pod does not answer: %+v", c)
	}
}

func TestStartingPodDelaysSettling(t *testing.T) {
	t.Parallel()
	l := newTrackerTest(three())
	p := l.s.pod("10.0.0.4", 2)
	p.Ready = false
	l.s.answers["10.0.0.4"] = Answer{Members: Members{SelfNode: at("10.0.0.4")}}
	c := l.poll(20)
	if c.Settled || c.Trouble != nil || c.State != lifecycle.ClusterUpgrading ||
		c.Note != "pod pod-10.0.0.4 has not joined" {
		t.Errorf("%+v", c)
	}
	p.Ready = true
	if c := l.poll(1); c.Trouble != nil {
		t.Errorf("immediately: %+v", c)
	}
	if c := l.poll(6); c.State != lifecycle.ClusterDegraded || c.Trouble[lifecycle.ClusterTrouble].Reason != "Lagging" ||
		!strings.Contains(c.Note, "is Ready, but is not a member") {
		t.Errorf("after %s: %+v", movePatience, c)
	}
	l.s.say("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4")
	if c := l.poll(2); c.Trouble != nil || c.State != lifecycle.ClusterUpgrading {
		t.Errorf("after it has joined: %+v", c)
	}
}

func TestTroubleMustBeConfirmed(t *testing.T) {
	t.Parallel()
	l := newTrackerTest(three())
	l.poll(4)
	l.s.say("10.0.0.1", "10.0.0.2")
	l.s.say("10.0.0.3")
	if c := l.poll(1); c.Trouble != nil || c.Settled || c.State != lifecycle.ClusterIsSplit {
		t.Errorf("after one poll: %+v", c)
	}
	if c := l.poll(1); c.Trouble[lifecycle.ClusterSplit] == nil {
		t.Errorf("after two polls: %+v", c)
	}
	for ip := range l.s.answers {
		a := l.s.answers[ip]
		a.Err, a.Members = errors.New("no answer"), Members{}
		l.s.answers[ip] = a
	}
	if c := l.poll(3); c.State != lifecycle.ClusterUnknown || c.Settled {
		t.Errorf("no pod answers: %+v", c)
	}
	l.s.say("10.0.0.1", "10.0.0.2", "10.0.0.3")
	if c := l.poll(1); c.Trouble == nil {
		t.Error("the trouble ends after one poll; want two")
	}
	if c := l.poll(1); c.Trouble != nil {
		t.Error("the trouble does not end after two polls")
	}
}

func TestRegime(t *testing.T) {
	t.Parallel()
	l := newTrackerTest(three())
	l.s.hold("10.0.0.1", "1", "2", "3", "4", "5")
	l.s.hold("10.0.0.2", "6", "7", "8", "9", "10")
	if c := l.poll(3); c.Regime != "" {
		t.Errorf("too early: %+v", c)
	}
	if c := l.poll(1); c.Regime != lifecycle.RegimeFrozen {
		t.Errorf("the newest Revision holds nothing and nothing moves: %+v", c)
	}
	l.s.hold("10.0.0.2", "6", "7", "8", "9")
	l.s.hold("10.0.0.3", "10")
	if c := l.poll(5); c.Regime != lifecycle.RegimeRebalancing {
		t.Errorf("a shard moved between members that stay up: %+v", c)
	}
	l.s.pods = l.s.pods[2:]
	l.s.say("10.0.0.3")
	if c := l.poll(5); c.Regime != "" || c.State != lifecycle.ClusterReady {
		t.Errorf("a single Revision has no regime: %+v", c)
	}
}

func TestScaledToZeroSettles(t *testing.T) {
	t.Parallel()
	l := newTrackerTest(three())
	l.s.pods = nil
	if c := l.poll(1); c.Settled || c.State != lifecycle.ClusterScaledToZero {
		t.Errorf("%+v", c)
	}
	if c := l.poll(1); !c.Settled {
		t.Errorf("%+v", c)
	}
}

// A pod may report any number of members. Its answers go into events and the journal, so they are bounded.
func TestHostileAnswersAreTruncated(t *testing.T) {
	t.Parallel()
	s := three()
	for ip, a := range s.answers {
		for i := range 2000 {
			a.Members.Unreachable = append(a.Members.Unreachable, Unreachable{Node: fmt.Sprintf("%s-%05d", at(ip), i)})
			a.Members.Members = append(a.Members.Members,
				Member{Node: fmt.Sprintf("%s-joining-%05d", at(ip), i), Status: "Joining"})
		}
		s.answers[ip] = a
	}
	hostile := newFakeCluster(v1alpha1.RuntimeProtoActor)
	for i := range 100 {
		p := hostile.pod(fmt.Sprintf("10.0.1.%d", i), 1)
		p.MemberID, p.ClusterName = "m", fmt.Sprintf("%063d", i)
	}
	for name, s := range map[string]*fakeCluster{"answers": s, "labels": hostile} {
		c := newTrackerTest(s).poll(10)
		if raw, err := json.Marshal(c); err != nil || len(raw) > 8<<10 || len(c.Trouble) == 0 {
			t.Errorf("%s: %d bytes, trouble %v (%v)", name, len(raw), len(c.Trouble), err)
		}
	}
}
