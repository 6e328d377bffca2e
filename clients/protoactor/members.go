// SPDX-License-Identifier: Apache-2.0

package protoactor

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/cluster"
)

// members are those of the cluster, as this member sees them.
type members struct {
	// self is the address of this member. Its id is the provider's, and known once it is in a topology.
	self   string
	lease  time.Duration
	settle time.Duration

	mu  sync.Mutex
	now []*cluster.Member
	id  string
	// joined is when this member came into the topology; zero while it is not there.
	joined time.Time
	// leaving are the ids of members that said that they leave. True: they hold nothing any more.
	leaving map[string]bool
	// gone are the members that left without a word, and until when their grains may be active.
	gone map[string]absence
	// changes counts what changes the result of targets.
	changes int
}

type absence struct {
	address string
	until   time.Time
}

// settleFor is how long a member waits after it has joined, before it claims shards: some providers, such as the one
// for Kubernetes, first list the members one by one.
const settleFor = time.Second

func newMembers(self string, lease time.Duration) *members {
	return &members{self: self, lease: lease, settle: settleFor, leaving: map[string]bool{}, gone: map[string]absence{}}
}

// update returns whether this member has just left the topology.
func (m *members) update(t *cluster.ClusterTopology, now time.Time) (expelled bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	in := func(all []*cluster.Member, id string) bool {
		return slices.ContainsFunc(all, func(one *cluster.Member) bool { return one.GetId() == id })
	}
	for _, was := range m.now {
		if !in(t.GetMembers(), was.GetId()) && !m.leaving[was.GetId()] && was.Address() != m.self {
			m.gone[was.GetId()] = absence{was.Address(), now.Add(m.lease)}
		}
	}
	maps.DeleteFunc(m.leaving, func(id string, _ bool) bool { return id != m.id && !in(t.GetMembers(), id) })
	m.now = slices.Clone(t.GetMembers())
	slices.SortFunc(m.now, func(a, b *cluster.Member) int { return strings.Compare(a.Address(), b.Address()) })
	m.changes++
	// Another id at this address is a later process, which must not be taken for this one.
	me := slices.IndexFunc(m.now, func(one *cluster.Member) bool {
		return one.Address() == m.self && (m.id == "" || one.GetId() == m.id)
	})
	if me < 0 {
		expelled = !m.joined.IsZero()
		m.joined = time.Time{}
		return expelled
	}
	if m.joined.IsZero() {
		m.joined = now
	}
	m.id = m.now[me].GetId()
	return false
}

// leave remembers that this member leaves, and returns what to tell the others.
func (m *members) leave() left {
	m.mu.Lock()
	l := left{ID: m.id}
	m.mu.Unlock()
	m.leaves(l)
	return l
}

// leaves remembers that a member leaves.
func (m *members) leaves(l left) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leaving[l.ID] = m.leaving[l.ID] || l.Done
	if l.Done {
		delete(m.gone, l.ID)
	}
	m.changes++
}

// able returns the sorted addresses of the members that may own shards of a kind, and the number of changes so far.
func (m *members) able(kind string) (addresses []string, changes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.now {
		if _, leaves := m.leaving[one.GetId()]; !leaves && slices.Contains(one.GetKinds(), kind) {
			addresses = append(addresses, one.Address())
		}
	}
	return addresses, m.changes
}

// has reports whether a member is in the topology, and may hold shards.
func (m *members) has(address string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.now, func(one *cluster.Member) bool {
		return one.Address() == address && !m.leaving[one.GetId()]
	})
}

// others returns the addresses of the members that may hold shards, without this one. It returns false if this member
// is not part of the cluster, or has only just joined, so that it must not claim anything.
func (m *members) others() ([]string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for _, one := range m.now {
		if one.Address() != m.self && !m.leaving[one.GetId()] {
			out = append(out, one.Address())
		}
	}
	_, leaves := m.leaving[m.id]
	return out, !m.joined.IsZero() && time.Since(m.joined) >= m.settle && !leaves
}

// away returns how long grains of members that left without a word may still be active. A member that is at the same
// address proves that the process before it has ended.
func (m *members) away(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	longest := time.Duration(0)
	for id, a := range m.gone {
		back := slices.ContainsFunc(m.now, func(one *cluster.Member) bool { return one.Address() == a.address })
		if !now.Before(a.until) || back {
			delete(m.gone, id)
			continue
		}
		longest = max(longest, a.until.Sub(now))
	}
	return longest
}

// list returns all members with their status, as the management contract has it.
func (m *members) list() (out []managedMember, joined bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.now {
		status := "Up"
		if _, leaves := m.leaving[one.GetId()]; leaves {
			status = "Leaving"
		}
		out = append(out, managedMember{Node: one.Address(), UID: uid(one.GetId()), Status: status, Roles: []string{}})
	}
	return out, !m.joined.IsZero()
}
