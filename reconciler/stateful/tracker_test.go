package stateful

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// looking looks every five seconds.
type trackerTest struct {
	t *tracker
	s *fakeCluster
	// now is the time of the last look.
	now time.Time
}

func newTrackerTest(s *fakeCluster) *trackerTest {
	return &trackerTest{t: &tracker{}, s: s, now: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)}
}

func (l *trackerTest) look(times int) lifecycle.Cluster {
	var c lifecycle.Cluster
	for range times {
		l.now = l.now.Add(5 * time.Second)
		c = l.t.next(l.s.look(), l.now)
	}
	return c
}

func TestWhenAClusterHasSettled(t *testing.T) {
	t.Parallel()
	l := newTrackerTest(three())
	if c := l.look(3); c.Settled || c.Note != "members or shards have moved" {
		t.Errorf("between two rounds of rebalancing: %+v", c)
	}
	settled := l.look(1)
	if !settled.Settled || settled.Note != "" {
		t.Errorf("%+v", settled)
	}
	if again := l.look(1); !reflect.DeepEqual(settled, again) {
		t.Errorf("a look that shows nothing new is another: %+v", again)
	}
	l.s.hold("10.0.0.2") // busy: not known, and not gone
	if c := l.look(1); !c.Settled {
		t.Errorf("a busy region: %+v", c)
	}
	l.s.hold("10.0.0.3", "3") // it moved meanwhile
	if c := l.look(1); c.Settled {
		t.Error("a shard moved")
	}
	if c := l.look(3); !c.Settled {
		t.Errorf("%+v", c)
	}
	l.s.hold("10.0.0.1", "1", "2", "9")
	if c := l.look(1); c.Settled {
		t.Error("a shard is new")
	}
	l.look(3)
	l.s.answers["10.0.0.2"] = answer{members: l.s.answers["10.0.0.2"].members, err: errors.New("500")}
	if c := l.look(1); c.Settled || c.State != lifecycle.ClusterUpgrading {
		t.Errorf("not everybody answers: %+v", c)
	}
}

func TestAPodThatStartsHasNotSettled(t *testing.T) {
	t.Parallel()
	l := newTrackerTest(three())
	p := l.s.pod("10.0.0.4", 2)
	p.Ready = false
	l.s.answers["10.0.0.4"] = answer{members: Members{SelfNode: at("10.0.0.4")}}
	c := l.look(20)
	if c.Settled || c.Trouble != nil || c.State != lifecycle.ClusterUpgrading || c.Note != "pod pod-10.0.0.4 has not joined" {
		t.Errorf("%+v", c)
	}
	p.Ready = true
	if c := l.look(1); c.Trouble != nil {
		t.Errorf("at once: %+v", c)
	}
	if c := l.look(6); c.State != lifecycle.ClusterDegraded || c.Trouble[lifecycle.ClusterTrouble].Reason != "Lagging" || !strings.Contains(c.Note, "is Ready, but is not a member") {
		t.Errorf("after %s: %+v", movePatience, c)
	}
	l.s.say("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4")
	if c := l.look(2); c.Trouble != nil || c.State != lifecycle.ClusterUpgrading {
		t.Errorf("it joined: %+v", c)
	}
}

func TestTroubleIsConfirmed(t *testing.T) {
	t.Parallel()
	l := newTrackerTest(three())
	l.look(4)
	l.s.say("10.0.0.1", "10.0.0.2")
	l.s.say("10.0.0.3")
	if c := l.look(1); c.Trouble != nil || c.Settled || c.State != lifecycle.ClusterIsSplit {
		t.Errorf("once: %+v", c)
	}
	if c := l.look(1); c.Trouble[lifecycle.ClusterSplit] == nil {
		t.Errorf("twice: %+v", c)
	}
	for ip := range l.s.answers {
		a := l.s.answers[ip]
		a.err, a.members = errors.New("no answer"), Members{}
		l.s.answers[ip] = a
	}
	if c := l.look(3); c.State != lifecycle.ClusterUnknown || c.Settled {
		t.Errorf("nobody answers: %+v", c)
	}
	l.s.say("10.0.0.1", "10.0.0.2", "10.0.0.3")
	if c := l.look(1); c.Trouble == nil {
		t.Error("it is over after one look")
	}
	if c := l.look(1); c.Trouble != nil {
		t.Error("it is not over")
	}
}

func TestWhichRegime(t *testing.T) {
	t.Parallel()
	l := newTrackerTest(three())
	l.s.hold("10.0.0.1", "1", "2", "3", "4", "5")
	l.s.hold("10.0.0.2", "6", "7", "8", "9", "10")
	if c := l.look(3); c.Regime != "" {
		t.Errorf("too early: %+v", c)
	}
	if c := l.look(1); c.Regime != lifecycle.RegimeFrozen {
		t.Errorf("the newest has nothing, and nothing moves: %+v", c)
	}
	l.s.hold("10.0.0.2", "6", "7", "8", "9")
	l.s.hold("10.0.0.3", "10")
	if c := l.look(5); c.Regime != lifecycle.RegimeRebalancing {
		t.Errorf("one moved between members that live: %+v", c)
	}
	l.s.subjects = l.s.subjects[2:]
	l.s.say("10.0.0.3")
	if c := l.look(5); c.Regime != "" || c.State != lifecycle.ClusterReady {
		t.Errorf("one Revision alone has no regime: %+v", c)
	}
}

func TestScaledToZeroHasSettled(t *testing.T) {
	t.Parallel()
	l := newTrackerTest(three())
	l.s.subjects = nil
	if c := l.look(1); c.Settled || c.State != lifecycle.ClusterScaledToZero {
		t.Errorf("%+v", c)
	}
	if c := l.look(1); !c.Settled {
		t.Errorf("%+v", c)
	}
}
