// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Members are those of the cluster, as this member sees them.
type Members struct {
	// self is the address of this member. Its id is the provider's, and known once it is in a topology.
	self   string
	lease  time.Duration
	settle time.Duration

	mu  sync.Mutex
	now []Member
	id  string
	// joined is when this member came into the topology; zero while it is not there.
	joined time.Time
	// listed: this member was in a topology.
	listed bool
	// leaving are the ids of members that said that they leave. True: they hold nothing any more.
	leaving map[string]bool
	// gone are the members that left without a word, and until when their entities may be active.
	gone map[string]absence
	// seenGone are those that the list already had as Gone: each has one absence.
	seenGone map[string]bool
	// changes counts what changes the result of targets.
	changes int
}

// Member is a process that may hold shards.
type Member struct {
	// ID is another one after each restart.
	ID      string
	Address string
	// Kinds are those whose shards it may hold.
	Kinds []string
	// Leaving: it is about to end, and gets no shards.
	Leaving bool
	// Left: it said that it holds nothing, and takes nothing any more.
	Left bool
	// Gone: the API says that its pod is gone, which its process need not know if its node is cut off.
	Gone bool
}

// absence is that of a process whose entities may still be active until a time, or until one at its address proves that
// it has ended.
type absence struct {
	address string
	until   time.Time
	// own: it was at the address of this member.
	own bool
}

// settleFor is how long a member waits after it has joined, before it claims shards: some providers, such as the one
// for Kubernetes, first list the members one by one.
const settleFor = time.Second

// NewMembers returns the members as one at an address sees them.
func NewMembers(self string, lease time.Duration) *Members {
	return &Members{
		self: self, lease: lease, settle: settleFor,
		leaving: map[string]bool{}, gone: map[string]absence{}, seenGone: map[string]bool{},
	}
}

// NewRegistered returns the members as one sees them whose id is registered. Whoever registers later sees all that did
// before, so it may claim shards as soon as it sees itself.
func NewRegistered(self, id string, lease time.Duration) *Members {
	m := NewMembers(self, lease)
	m.id, m.settle = id, 0
	return m
}

// Before remembers a process that was at the address of this member. What it began may be active for a while.
func (m *Members) Before(id string, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone[id] = absence{until: until, own: true}
}

// haunted reports whether what a process before this one began may still be active. Before this member was in a list,
// it cannot know whether there was one.
func (m *Members) haunted(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.listed {
		return true
	}
	for _, a := range m.gone {
		if a.own && now.Before(a.until) {
			return true
		}
	}
	return false
}

// Update replaces the members, and returns whether this member has just left the topology.
func (m *Members) Update(t []Member, now time.Time) (expelled bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	in := func(all []Member, id string) bool {
		return slices.ContainsFunc(all, func(one Member) bool { return one.ID == id })
	}
	alive := func(id string) bool {
		return slices.ContainsFunc(t, func(one Member) bool { return one.ID == id && !one.Gone })
	}
	for _, was := range m.now {
		if !alive(was.ID) && !m.leaving[was.ID] && was.Address != m.self {
			m.gone[was.ID] = absence{address: was.Address, until: now.Add(m.lease)}
		}
	}
	for _, one := range t {
		if one.Left { // those that came after it had left did not hear it
			m.leaving[one.ID] = true
			delete(m.gone, one.ID)
		}
		if _, known := m.gone[one.ID]; one.Gone && !known && !m.seenGone[one.ID] && !m.leaving[one.ID] {
			m.gone[one.ID] = absence{until: now.Add(m.lease)}
		}
		if one.Gone {
			m.seenGone[one.ID] = true
		}
	}
	maps.DeleteFunc(m.seenGone, func(id string, _ bool) bool { return !in(t, id) })
	maps.DeleteFunc(m.leaving, func(id string, _ bool) bool { return id != m.id && !in(t, id) })
	m.now = slices.DeleteFunc(slices.Clone(t), func(one Member) bool { return one.Gone })
	slices.SortFunc(m.now, func(a, b Member) int { return strings.Compare(a.Address, b.Address) })
	m.changes++
	// Another id at this address is a later process, which must not be taken for this one.
	me := slices.IndexFunc(m.now, func(one Member) bool {
		return one.Address == m.self && (m.id == "" || one.ID == m.id)
	})
	if me < 0 {
		expelled = !m.joined.IsZero()
		m.joined = time.Time{}
		return expelled
	}
	if m.joined.IsZero() {
		m.joined = now
	}
	m.id, m.listed = m.now[me].ID, true
	return false
}

// leave remembers that this member leaves, and returns what to tell the others.
func (m *Members) leave() Left {
	m.mu.Lock()
	l := Left{ID: m.id}
	m.mu.Unlock()
	m.leaves(l)
	return l
}

// leaves remembers that a member leaves.
func (m *Members) leaves(l Left) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leaving[l.ID] = m.leaving[l.ID] || l.Done
	if l.Done {
		delete(m.gone, l.ID)
	}
	m.changes++
}

// able returns the sorted addresses of the members that may own shards of a kind, and the number of changes so far.
func (m *Members) able(kind string) (addresses []string, changes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.now {
		if m.stays(one) && slices.Contains(one.Kinds, kind) {
			addresses = append(addresses, one.Address)
		}
	}
	return addresses, m.changes
}

// leader returns the address of the member that looks for shards to move: the first one that does not leave. Empty: all
// leave.
func (m *Members) leader() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.now {
		if m.stays(one) {
			return one.Address
		}
	}
	return ""
}

// stays reports whether a member does not leave. The caller holds the lock.
func (m *Members) stays(one Member) bool {
	_, leaves := m.leaving[one.ID]
	return !leaves && !one.Leaving
}

// Has reports whether a member is in the topology, and may hold shards.
func (m *Members) Has(address string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.now, func(one Member) bool {
		return one.Address == address && !m.leaving[one.ID]
	})
}

// Others returns the addresses of the members that may hold shards, without this one. It returns false if this member
// is not part of the cluster, or has only just joined, so that it must not claim anything.
func (m *Members) Others() ([]string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for _, one := range m.now {
		if one.Address != m.self && !m.leaving[one.ID] {
			out = append(out, one.Address)
		}
	}
	_, leaves := m.leaving[m.id]
	return out, !m.joined.IsZero() && time.Since(m.joined) >= m.settle && !leaves
}

// away returns how long entities of members that left without a word may still be active. A member that is at the same
// address proves that the process before it has ended.
func (m *Members) away(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	longest := time.Duration(0)
	for id, a := range m.gone {
		back := slices.ContainsFunc(m.now, func(one Member) bool { return one.Address == a.address })
		if !now.Before(a.until) || back {
			delete(m.gone, id)
			continue
		}
		longest = max(longest, a.until.Sub(now))
	}
	return longest
}

// list returns all members with their status, as the management contract has it.
func (m *Members) list() (out []managedMember, joined bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.now {
		status := "Up"
		if _, leaves := m.leaving[one.ID]; leaves || one.Leaving {
			status = "Leaving"
		}
		out = append(out, managedMember{Node: one.Address, UID: uid(one.ID), Status: status, Roles: []string{}})
	}
	return out, !m.joined.IsZero()
}
