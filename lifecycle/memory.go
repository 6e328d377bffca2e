// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// maxRevisions bounds the Revisions in a memory. By default, Serving keeps 20 inactive ones per
// Configuration (config-gc).
const maxRevisions = 24

// maxFormer bounds the earlier primaries that are kept to recognize a re-applied template.
const maxFormer = 16

// Memory is the state kept of one Knative Service. The ledger stores it as JSON; fields are only
// ever added.
type Memory struct {
	// Sequence is the number of the newest transition.
	Sequence int64 `json:"sequence,omitempty"`
	// LastTime is the newest transition's time. Times never go back, even if the next leader's
	// clock does.
	LastTime time.Time `json:"lastTime,omitzero"`
	// Versions holds the resourceVersion of each object that was folded in, under a key that the caller
	// chooses. The caller ignores older snapshots.
	Versions map[string]string `json:"seen,omitempty"`

	// Announced: Created was sent, or the Service predates our first observation.
	Announced bool `json:"announced,omitempty"`
	// Baselined: the Service predates our first observation.
	Baselined bool `json:"baselined,omitempty"`
	Deployed  bool `json:"deployed,omitempty"`
	Removed   bool `json:"removed,omitempty"`

	Generation  int64             `json:"generation,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels are the Service's own, bounded by BoundLabels. Sources select by them, even after the
	// Service is gone.
	Labels map[string]string `json:"labels,omitempty"`

	// NamespaceLabels are the labels of the Service's namespace at the last journal write. They
	// outlive the namespace.
	NamespaceLabels map[string]string `json:"namespaceLabels,omitempty"`

	// Primary is the Revision that last had all effective traffic.
	Primary string `json:"primary,omitempty"`
	// Traffic is the effective split, largest share first.
	Traffic Split `json:"traffic,omitempty"`
	// URLs is the last published set.
	URLs []string `json:"urls,omitempty"`
	// Revisions holds the known Revisions, by name.
	Revisions map[string]KnownRevision `json:"revisions,omitempty"`
	// ReadyFloor is the highest generation that was pruned. Revisions at or below it were announced
	// long ago.
	ReadyFloor int64 `json:"readyFloor,omitempty"`
	// Former holds the earlier primaries, oldest first.
	Former []Former `json:"former,omitempty"`

	// AwaitedSince is since when the Service is to be deployed. It is zero while it is not: once it is Ready, and while a
	// failed rollout that was announced says why it is not.
	AwaitedSince time.Time `json:"awaitedSince,omitzero"`
	// Last is the newest of Created, Deployed, Upgraded and RolledBack.
	Last *TransitionRef `json:"last,omitempty"`
	// Held counts steps of a gradual rollout that are not announced yet.
	Held *Held `json:"held,omitempty"`
	// LastShift is when the last step of a gradual rollout was announced.
	LastShift time.Time `json:"lastShift,omitzero"`
	// Episodes holds the incidents that have not ended.
	Episodes map[Incident]*Episode `json:"episodes,omitempty"`
	// Waits is when each wait began, by this process's clock. It is not part of what is stored: trouble that comes
	// with each rollout is not worth a write, and another process has another clock. Only a process that keeps
	// nothing in memory has the ledger store it, apart from the memory.
	Waits map[Wait]time.Time `json:"-"`
	// Cluster is the memory of the Service's stateful cluster.
	Cluster *ClusterMemory `json:"cluster,omitempty"`
	// Pending is a change of the primary that waits for the cluster.
	Pending *Pending `json:"pending,omitempty"`
	// Judged lists the announced gate runs, oldest first.
	Judged []string `json:"judged,omitempty"`
	// ReadySince is when the Service became Ready, while Deployed is not announced.
	ReadySince time.Time `json:"readySince,omitzero"`
}

// Check rejects a memory that no fold can have produced, such as one edited by hand.
func (m Memory) Check() error {
	for name, split := range map[string]Split{"traffic": m.Traffic, "held.previous": m.Held.previous()} {
		for i, s := range split {
			if s.Revision == "" {
				return fmt.Errorf("%s[%d] names no Revision", name, i)
			}
		}
	}
	return nil
}

// Gone reports whether the Service is gone.
func (m Memory) Gone() bool { return m.Removed }

// Selection returns the labels that sources select by: the Service's own and those of its
// namespace.
func (m Memory) Selection() (own, namespace map[string]string) { return m.Labels, m.NamespaceLabels }

// Stored returns the value for the ledger. A namespace that is not nil replaces the labels of the
// Service's namespace.
func (m Memory) Stored(namespace map[string]string) any {
	if namespace != nil {
		m.NamespaceLabels = namespace
	}
	return m
}

// Covers reports whether this memory equals another one, apart from resource versions, waits and
// the labels of the namespace.
func (m Memory) Covers(other Memory) bool {
	other.Versions, other.Waits, other.NamespaceLabels = m.Versions, m.Waits, m.NamespaceLabels
	return reflect.DeepEqual(m, other)
}

// KnownRevision is a Revision and its place in the history of the Service.
type KnownRevision struct {
	Revision
	// Chain is the sequence number of the first transition of its rollout.
	Chain int64 `json:"chain,omitempty"`
	// Arrived is the transition that last gave it traffic or made it primary.
	Arrived *TransitionRef `json:"arrived,omitempty"`
	// Rank is the rank of the earlier primary that this one equals; 0 if there is none. A template
	// that was rolled back and is applied again goes forward again.
	Rank int64 `json:"rank,omitempty"`
	// Before lists the UIDs of deleted Revisions with this name. Snapshots that show them are
	// stale.
	Before []types.UID `json:"before,omitempty"`
	// Replaced is the Revision that had this name and all effective traffic. It was deleted, and this one
	// has not had traffic yet.
	Replaced *KnownRevision `json:"replaced,omitempty"`
	// Clustered latches: the Revision had members in the Service's cluster.
	Clustered bool `json:"clustered,omitempty"`
}

// maxBefore bounds the UIDs kept in KnownRevision.Before.
const maxBefore = 8

// rank orders primaries by content, not by when they were applied.
func (k KnownRevision) rank() int64 {
	if k.Rank > 0 {
		return k.Rank
	}
	return k.Generation
}

// MustSave reports whether this memory holds state that was never announced, that a later decision
// depends on, and that the saved memory lacks.
func (m *Memory) MustSave(saved Memory) bool {
	return !maps.Equal(m.Labels, saved.Labels) || !maps.Equal(m.Annotations, saved.Annotations) ||
		len(m.URLs) == 0 && len(saved.URLs) > 0 || len(m.Episodes) < len(saved.Episodes) ||
		saved.AwaitedSince.IsZero() && !m.AwaitedSince.IsZero() ||
		// By the time it is announced, the Route may show something else.
		(m.Pending == nil) != (saved.Pending == nil) || m.waitsReady() != saved.waitsReady() ||
		// State that predates us and is not announced must not be announced later.
		m.Cluster.formed() != saved.Cluster.formed() || m.Cluster.placement().mustSave(saved.Cluster.placement()) ||
		m.Misdeclared() != saved.Misdeclared()
}

// waitsReady reports whether Deployed waits for the cluster to settle.
func (m *Memory) waitsReady() bool { return m.Cluster != nil && !m.ReadySince.IsZero() }

func (c *ClusterMemory) formed() bool { return c != nil && c.Formed }

// Misdeclared says what is wrong with the newest Revision's cluster declaration, or is empty.
func (m *Memory) Misdeclared() string { return m.newest().Misdeclared }

// newest returns the Revision of the highest generation.
func (m *Memory) newest() KnownRevision {
	var out KnownRevision
	for _, k := range m.Revisions {
		if out.Name == "" || compareGeneration(out.Revision, k.Revision) < 0 {
			out = k
		}
	}
	return out
}

// Former holds what it takes to recognize an earlier primary.
type Former struct {
	// Rank orders it among the primaries, as KnownRevision.rank does.
	Rank int64  `json:"rank,omitempty"`
	Name string `json:"name"`
	// UID identifies it. A Revision of the same name may be another one.
	UID      types.UID `json:"uid,omitempty"`
	Template string    `json:"template"`
	Digests  []string  `json:"digests,omitempty"`
}

// TransitionRef refers to a transition that later ones link to.
type TransitionRef struct {
	Sequence int64     `json:"sequence"`
	Time     time.Time `json:"time"`
	Type     Type      `json:"type"`
}

func (m *TransitionRef) link(kind string) []Link {
	if m == nil {
		return nil
	}
	return []Link{{Kind: kind, Sequence: m.Sequence, Time: m.Time, Type: m.Type}}
}

// Held counts the steps merged since the last announced step of a gradual rollout.
type Held struct {
	// Previous is the last announced split.
	Previous Split `json:"previous,omitempty"`
	// Steps counts the held steps.
	Steps int64 `json:"steps"`
}

func (h *Held) previous() Split {
	if h == nil {
		return nil
	}
	return h.Previous
}

// journalTime returns a time as it is journaled, never before the last one.
func (m *Memory) journalTime(at time.Time) time.Time { return journalTime(at, m.LastTime) }

func journalTime(at, last time.Time) time.Time {
	at = at.UTC().Truncate(time.Microsecond)
	if at.Before(last) {
		return last
	}
	return at
}

// clone copies what Next changes in place.
func (m Memory) clone() Memory {
	m.Versions = maps.Clone(m.Versions)
	m.Revisions = maps.Clone(m.Revisions)
	m.Former = slices.Clone(m.Former)
	m.Episodes, m.Waits = maps.Clone(m.Episodes), maps.Clone(m.Waits)
	if m.Cluster != nil {
		c := *m.Cluster
		m.Cluster = &c
	}
	if m.Held != nil {
		held := *m.Held
		m.Held = &held
	}
	return m
}

// revision returns the known Revision, or one with only a name.
func (m *Memory) revision(name string) *Revision {
	if name == "" {
		return nil
	}
	r := m.Revisions[name].Revision
	r.Name = name
	return &r
}

// mergeRevisions merges the Revisions of a snapshot and returns those that became Ready, by generation.
func (m *Memory) mergeRevisions(observed map[string]*Revision) []string {
	var ready []string
	for name, r := range observed {
		now := *r
		known, had := m.Revisions[name]
		if had && known.UID != now.UID && now.UID != "" {
			// A user-chosen name, reused after the Revision was deleted.
			if slices.Contains(known.Before, now.UID) {
				continue
			}
			before := append(slices.Clone(known.Before), known.UID)
			known, had = KnownRevision{Before: before[max(0, len(before)-maxBefore):], Replaced: m.replaced(known)}, false
		}
		switch {
		case now.Ready && !known.Ready && now.Generation > m.ReadyFloor:
			ready = append(ready, name)
		case known.Ready:
			now.Ready = true
		}
		if had && len(now.Images) == 0 && now.Digests == "" {
			now.Images, now.Digests = known.Images, known.Digests
		}
		known.Revision = now
		if m.Revisions == nil {
			m.Revisions = map[string]KnownRevision{}
		}
		m.Revisions[name] = known
	}
	slices.SortFunc(ready, func(a, b string) int {
		return compareGeneration(m.Revisions[a].Revision, m.Revisions[b].Revision)
	})
	return ready
}

// replaced returns what a Revision that is made again under its name replaces as primary, nil if it was not primary.
func (m *Memory) replaced(gone KnownRevision) *KnownRevision {
	switch {
	case gone.Name != m.Primary:
		return nil
	case gone.Replaced != nil:
		return gone.Replaced // this one never had traffic
	}
	gone.Before = nil
	return &gone
}

// primary returns the Revision that last had all effective traffic. Another one may have its name by now.
func (m *Memory) primary() KnownRevision {
	k := m.Revisions[m.Primary]
	if k.Replaced != nil {
		k = *k.Replaced
	}
	k.Name = m.Primary
	return k
}

// pruneRevisions drops the oldest Revisions that are neither primary nor have traffic. If the others
// are too large, it keeps only the names of the oldest: a Revision with traffic exists, so the next
// snapshot shows it again.
func (m *Memory) pruneRevisions() {
	size := 0
	for _, k := range m.Revisions {
		size += k.size()
	}
	tooMany := func() bool { return len(m.Revisions) > maxRevisions || size > maxKnown }
	if !tooMany() {
		return
	}
	names := slices.SortedFunc(maps.Keys(m.Revisions), func(a, b string) int {
		return compareGeneration(m.Revisions[a].Revision, m.Revisions[b].Revision)
	})
	for _, name := range names[:len(names)-1] {
		if !tooMany() {
			return
		}
		if name == m.Primary || m.Traffic.Percent(name) > 0 {
			continue
		}
		size -= m.Revisions[name].size()
		m.ReadyFloor = max(m.ReadyFloor, m.Revisions[name].Generation)
		delete(m.Revisions, name)
	}
	for _, name := range names[:len(names)-1] {
		k, ok := m.Revisions[name]
		if !ok || name == m.Primary || size <= maxKnown {
			continue
		}
		m.Revisions[name] = k.bare()
		size -= k.size() - m.Revisions[name].size()
	}
}

// retire records a former primary.
func (m *Memory) retire(k KnownRevision) {
	if k.Template == "" {
		return
	}
	m.Former = append(m.Former, Former{
		Name: k.Name, UID: k.UID, Template: k.Template, Digests: digests(&k.Revision), Rank: k.rank(),
	})
	size, keep := 0, len(m.Former)
	for keep > 0 && len(m.Former)-keep < maxFormer {
		if size += m.Former[keep-1].size(); size > maxFormerSize {
			break
		}
		keep--
	}
	m.Former = slices.Delete(m.Former, 0, keep)
}

// findFormer returns the earlier primary that r equals in template and images, or nil. The same
// Revision, made primary again, does not count. Unresolved tags may point to changed images, so
// only known, equal digests count.
func (m *Memory) findFormer(r *Revision) *Former {
	have := digests(r)
	if r.Template == "" || len(have) == 0 {
		return nil
	}
	for i := len(m.Former) - 1; i >= 0; i-- {
		if f := &m.Former[i]; !f.is(r) && f.Template == r.Template && slices.Equal(f.Digests, have) {
			return f
		}
	}
	return nil
}

// is reports whether it is the same Revision. Earlier releases did not store the UID.
func (f *Former) is(r *Revision) bool {
	if f.UID == "" || r.UID == "" {
		return f.Name == r.Name
	}
	return f.UID == r.UID
}

// digests returns the resolved images, or nil if any is unresolved.
func digests(r *Revision) []string {
	switch r.Digests {
	case "":
	case unresolved:
		return nil
	default:
		return []string{r.Digests}
	}
	out := make([]string, 0, len(r.Images))
	for _, i := range r.Images {
		if i.Digest == "" {
			return nil
		}
		out = append(out, i.Digest)
	}
	return out
}

func compareGeneration(a, b Revision) int {
	switch {
	case a.Generation != b.Generation:
		return int(min(max(a.Generation-b.Generation, -1), 1))
	case a.Name < b.Name:
		return -1
	case a.Name > b.Name:
		return 1
	}
	return 0
}

// newer returns the Revision of the higher generation; a may be nil.
func newer(a, b *Revision) *Revision {
	if a == nil || compareGeneration(*a, *b) < 0 {
		return b
	}
	return a
}
