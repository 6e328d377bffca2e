// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// settles is how long a simulated cluster moves its shards.
const settles = 3 * time.Second

// join changes the members of a cluster.
func (c *cluster) join(s *service, members []string) {
	slices.Sort(members)
	if members = slices.Compact(members); !slices.Equal(members, s.members) {
		s.members, s.moved = members, c.now
	}
}

// stir changes the cluster of a Service: it drains an old Revision, scales all to zero,
// brings pods back, splits the cluster or heals it.
func (c *cluster) stir(s *service) {
	if !s.stateful || len(s.splits) == 0 {
		return
	}
	var serving []string
	for _, share := range s.splits[len(s.splits)-1].split {
		serving = append(serving, share.Revision)
	}
	switch c.rng.IntN(6) {
	case 0, 1:
		c.join(s, serving)
	case 2:
		c.join(s, append(serving, s.members...))
	case 3:
		c.join(s, nil)
	case 4:
		s.split = true
	case 5:
		s.split = false
	}
}

// look is a poll of a cluster that a process has started and not reported yet.
type look struct {
	key  types.NamespacedName
	uid  types.UID
	view lifecycle.Cluster
}

// begin starts to poll the cluster of a Service that the process leads for.
func (p *process) begin(s *service) {
	if !p.leads || !s.stateful {
		return
	}
	v := lifecycle.Cluster{Base: p.ob.Sequence(s.key, s.uid)}
	v.Runtime, v.State = "pekko", lifecycle.ClusterReady
	for _, name := range s.members {
		v.Parts = append(v.Parts, lifecycle.ClusterPart{Revision: name, Pods: 1, Members: 1})
	}
	v.Placement = p.w.cluster.placement(s)
	v.Settled = p.w.cluster.now.Sub(s.moved) >= settles
	switch {
	case len(s.members) == 0:
		v.State = lifecycle.ClusterScaledToZero
	case s.split:
		v.State, v.Settled = lifecycle.ClusterIsSplit, false
		v.Trouble = map[lifecycle.Incident]*lifecycle.Trouble{lifecycle.ClusterSplit: {Reason: "Split"}}
	}
	p.looks = append(p.looks, look{s.key, s.uid, v})
}

// tell reports the oldest poll, whatever happened since.
func (p *process) tell() {
	if len(p.looks) == 0 {
		return
	}
	l := p.looks[0]
	p.looks = p.looks[1:]
	p.ob.Update(l.key, observer.Part{
		Name: lifecycle.ObjectCluster, Version: p.w.store.NextVersion(), Value: &l.view, Owner: l.uid, Volatile: true,
	})
}

// poll starts the poll of some cluster, or reports one.
func (p *process) poll() {
	names := p.w.cluster.names()
	if len(names) == 0 || p.w.rng.IntN(2) == 0 {
		p.tell()
		return
	}
	if key := names[p.w.rng.IntN(len(names))]; len(p.kind.Cached(key)) > 0 {
		p.begin(p.w.cluster.live[key])
	}
}

// remembered returns what the ledger stores about a Service.
func (w *world) remembered(s *service) lifecycle.Memory {
	var m lifecycle.Memory
	o := w.entry(s.uid)
	if o == nil || json.Unmarshal([]byte(o.Status.Memory), &m) != nil {
		return lifecycle.Memory{}
	}
	return m
}

// judgeCluster checks that the events of a cluster are a possible sequence.
func (w *world) judgeCluster(s *service, count map[string]int, mine []delivered, most int) {
	for _, once := range []string{"cluster.formed", "cluster.removed"} {
		if count[once] > most || !s.stateful && count[once] > 0 {
			w.fail("%s: %d events %s", s.uid, count[once], once)
		}
	}
	w.judgePlacement(s, mine)
	if s.restored > 0 || s.unmade || s.deleted && s.era != w.cluster.era {
		return
	}
	formed, open := 0, 0
	for _, d := range mine {
		if strings.Contains(d.subject, "/"+string(lifecycle.NotDeployed)+"/") {
			if !s.deleted && short(d.typ) == "detected" && s.ready && count["detected"] > count["resolved"] {
				w.fail("%s is deployed, and an incident says that it is not", s.uid)
			}
			continue
		}
		switch short(d.typ) {
		case "cluster.formed":
			formed++
		case "cluster.settled":
			if formed == 0 && !w.before(s) {
				w.fail("%s: a cluster has settled that was not formed", s.uid)
			}
		case "detected":
			open++
		case "resolved":
			open--
		}
		if open < 0 || open > 1 {
			w.fail("%s: %d incidents are open, and there is one kind of them", s.uid, open)
		}
	}
	switch {
	case !s.stateful:
	case s.deleted && (open != 0 || formed > 0 && count["cluster.removed"] == 0):
		w.fail("%s is gone: %d incidents are open, of its cluster %v", s.uid, open, count)
	case s.deleted:
	case open != 0:
		w.fail("%s: its cluster is whole, and %d incidents are open", s.uid, open)
	case count["cluster.removed"] > 0:
		w.fail("%s: its cluster is there, and was announced as removed", s.uid)
	case !w.before(s) && len(s.members) > 0 && (formed == 0 || count["cluster.settled"] == 0):
		w.fail("%s: its cluster has settled, but no event announced it: %v", s.uid, count)
	}
}
