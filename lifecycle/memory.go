package lifecycle

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// maxRevisions bounds how many Revisions a memory holds. Serving keeps 20
// inactive ones per Configuration by default (config-gc).
const maxRevisions = 24

// maxFormer bounds how many earlier primaries are remembered for recognising a
// re-applied template.
const maxFormer = 16

// Memory is what is remembered of one Knative Service. It is stored in the
// ledger as JSON; fields are only ever added.
type Memory struct {
	// Sequence is the number of the newest transition.
	Sequence int64 `json:"sequence,omitempty"`
	// LastTime is the newest transition's time. Times never go back, even when
	// the next leader's clock does.
	LastTime time.Time `json:"lastTime,omitzero"`
	// Seen holds the resourceVersion of each object that was folded in, by a
	// name that the caller chooses. A snapshot that is older is ignored by him.
	Seen map[string]string `json:"seen,omitempty"`

	// Announced: Created was sent, or the Service was there before us.
	Announced bool `json:"announced,omitempty"`
	// Baselined: the Service was there before us.
	Baselined bool `json:"baselined,omitempty"`
	Deployed  bool `json:"deployed,omitempty"`
	Removed   bool `json:"removed,omitempty"`

	Generation  int64             `json:"generation,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels are the Service's own, as far as they are Remembered. Sources select by them,
	// also when it is gone.
	Labels map[string]string `json:"labels,omitempty"`

	// NamespaceLabels are those of the Service's namespace, when something was
	// journaled last. They outlive the namespace.
	NamespaceLabels map[string]string `json:"namespaceLabels,omitempty"`

	// Primary names the Revision that had all effective traffic last.
	Primary string `json:"primary,omitempty"`
	// Traffic is the effective split, largest share first.
	Traffic []Share `json:"traffic,omitempty"`
	// URLs is the set that was published last.
	URLs []string `json:"urls,omitempty"`
	// Revisions holds what is known of each, by name.
	Revisions map[string]Known `json:"revisions,omitempty"`
	// ReadyFloor is the highest generation that was forgotten: a Revision at or
	// below it was announced long ago.
	ReadyFloor int64 `json:"readyFloor,omitempty"`
	// Former holds the earlier primaries, oldest first.
	Former []Former `json:"former,omitempty"`

	// Last is the newest of Created, Deployed, Upgraded and RolledBack.
	Last *Mark `json:"last,omitempty"`
	// Held are steps of a gradual rollout that were not announced yet.
	Held *Held `json:"held,omitempty"`
	// LastShift is when a step of a gradual rollout was announced last.
	LastShift time.Time `json:"lastShift,omitzero"`
	// Episodes is trouble that was announced and has not ended.
	Episodes map[Incident]*Episode `json:"episodes,omitempty"`
	// Waits is since when this process waits for something, by its own clock. It is
	// not stored: trouble that comes with each rollout is not worth a write, and the
	// clock of another process is another one.
	Waits map[Wait]time.Time `json:"-"`
	// Cluster is what is remembered of the Service's stateful cluster.
	Cluster *ClusterMemory `json:"cluster,omitempty"`
	// Pending is a change of the primary that waits for the cluster.
	Pending *Pending `json:"pending,omitempty"`
	// Judged are the runs of gates that were told of, oldest first.
	Judged []string `json:"judged,omitempty"`
	// ReadySince is when the Service, not yet Deployed, became Ready.
	ReadySince time.Time `json:"readySince,omitzero"`
}

// Check says what makes a memory one that no fold has made, as after an edit by hand.
func (m Memory) Check() error {
	for name, split := range map[string][]Share{"traffic": m.Traffic, "held.previous": m.Held.previous()} {
		for i, s := range split {
			if s.Revision == "" {
				return fmt.Errorf("%s[%d] names no Revision", name, i)
			}
		}
	}
	return nil
}

// Gone says that the Service is gone.
func (m Memory) Gone() bool { return m.Removed }

// Selection returns the labels that sources select by: the Service's own and those of its
// namespace.
func (m Memory) Selection() (own, namespace map[string]string) { return m.Labels, m.NamespaceLabels }

// Stored is what is written to the ledger. A namespace that is not nil replaces the labels of
// the Service's namespace.
func (m Memory) Stored(namespace map[string]string) any {
	if namespace != nil {
		m.NamespaceLabels = namespace
	}
	return m
}

// Covers says whether this memory has all that another one has, apart from the versions of
// what was seen, what is waited for, and the labels of the namespace.
func (m Memory) Covers(other Memory) bool {
	other.Seen, other.Waits, other.NamespaceLabels = m.Seen, m.Waits, m.NamespaceLabels
	return reflect.DeepEqual(m, other)
}

// Known is a Revision and its place in the story of the Service.
type Known struct {
	Revision
	// Chain is the sequence number of the first transition of its rollout.
	Chain int64 `json:"chain,omitempty"`
	// Arrived is the transition that last gave it traffic or made it primary.
	Arrived *Mark `json:"arrived,omitempty"`
	// Rank is that of the earlier primary which this one equals; 0 if there is
	// none. What was taken back and is applied once more goes forward again.
	Rank int64 `json:"rank,omitempty"`
	// Before are the UIDs that Revisions of this name had earlier: what is still
	// said of them is of the past.
	Before []string `json:"before,omitempty"`
	// Clustered latches: the Revision had members in the Service's cluster.
	Clustered bool `json:"clustered,omitempty"`
}

// maxBefore bounds how many of them are remembered.
const maxBefore = 8

// rank orders primaries by what they are, not by when they were applied.
func (k Known) rank() int64 {
	if k.Rank > 0 {
		return k.Rank
	}
	return k.Generation
}

// Outgrew says whether this memory holds something that was never announced, and
// that a later decision depends on, which the saved one does not hold.
func (m *Memory) Outgrew(saved Memory) bool {
	return !maps.Equal(m.Labels, saved.Labels) || !maps.Equal(m.Annotations, saved.Annotations) ||
		len(m.URLs) == 0 && len(saved.URLs) > 0 || len(m.Episodes) < len(saved.Episodes) ||
		// By the time that it is told, the Route may show something else.
		(m.Pending == nil) != (saved.Pending == nil) || m.waitsReady() != saved.waitsReady() ||
		// What was there before us and is not told must not be told later.
		m.Cluster.formed() != saved.Cluster.formed() || m.Misdeclared() != saved.Misdeclared()
}

// waitsReady: it is Ready, and not told as deployed before its cluster has settled.
func (m *Memory) waitsReady() bool { return m.Cluster != nil && !m.ReadySince.IsZero() }

func (c *ClusterMemory) formed() bool { return c != nil && c.Formed }

// Misdeclared says what is wrong with the cluster that the newest Revision
// declares, empty if nothing is.
func (m *Memory) Misdeclared() string { return m.newest().Misdeclared }

// newest returns the Revision of the highest generation.
func (m *Memory) newest() Known {
	var out Known
	for _, k := range m.Revisions {
		if out.Name == "" || compareGeneration(out.Revision, k.Revision) < 0 {
			out = k
		}
	}
	return out
}

// Former is an earlier primary, as far as it is needed to recognise it again.
type Former struct {
	// Rank orders it among the primaries, as Known.rank does.
	Rank     int64    `json:"rank,omitempty"`
	Name     string   `json:"name"`
	Template string   `json:"template"`
	Digests  []string `json:"digests,omitempty"`
}

// Mark remembers a transition that later ones point to.
type Mark struct {
	Sequence int64     `json:"sequence"`
	Time     time.Time `json:"time"`
	Type     Type      `json:"type"`
}

func (m *Mark) link(kind string) []Link {
	if m == nil {
		return nil
	}
	return []Link{{Kind: kind, Sequence: m.Sequence, Time: m.Time, Type: m.Type}}
}

// Held is what was merged since the last announced step of a gradual rollout.
type Held struct {
	// Previous is the split that was announced last.
	Previous []Share `json:"previous,omitempty"`
	// Steps counts the steps that are held back.
	Steps int64 `json:"steps"`
}

func (h *Held) previous() []Share {
	if h == nil {
		return nil
	}
	return h.Previous
}

// after is a time as it is journaled, and not before the last one.
func (m *Memory) after(at time.Time) time.Time {
	at = at.UTC().Truncate(time.Microsecond)
	if at.Before(m.LastTime) {
		return m.LastTime
	}
	return at
}

// clone copies what Next changes in place.
func (m Memory) clone() Memory {
	m.Seen = maps.Clone(m.Seen)
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

// revision returns what is known of a Revision; at least its name.
func (m *Memory) revision(name string) *Revision {
	if name == "" {
		return nil
	}
	r := m.Revisions[name].Revision
	r.Name = name
	return &r
}

// learn takes over what a snapshot says of its Revisions and returns those that
// became Ready, in the order of their generation.
func (m *Memory) learn(seen map[string]Revision) []string {
	var ready []string
	for name, now := range seen {
		known, had := m.Revisions[name]
		if had && known.UID != now.UID && now.UID != "" {
			// A user-chosen name, used again after the Revision was deleted.
			if slices.Contains(known.Before, now.UID) {
				continue
			}
			before := append(slices.Clone(known.Before), known.UID)
			known, had = Known{Before: before[max(0, len(before)-maxBefore):]}, false
		}
		switch {
		case now.Ready && !known.Ready && now.Generation > m.ReadyFloor:
			ready = append(ready, name)
		case known.Ready:
			now.Ready = true
		}
		if had && len(now.Images) == 0 {
			now.Images = known.Images
		}
		known.Revision = now
		if m.Revisions == nil {
			m.Revisions = map[string]Known{}
		}
		m.Revisions[name] = known
	}
	slices.SortFunc(ready, func(a, b string) int {
		return compareGeneration(m.Revisions[a].Revision, m.Revisions[b].Revision)
	})
	return ready
}

// forget drops the oldest Revisions that play no part any more.
func (m *Memory) forget() {
	size := 0
	for _, k := range m.Revisions {
		size += k.weight()
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
		if name == m.Primary || share(m.Traffic, name) > 0 {
			continue
		}
		size -= m.Revisions[name].weight()
		m.ReadyFloor = max(m.ReadyFloor, m.Revisions[name].Generation)
		delete(m.Revisions, name)
	}
}

// retire remembers a primary that is one no more.
func (m *Memory) retire(r *Revision) {
	if r == nil || r.Template == "" {
		return
	}
	m.Former = append(m.Former, Former{
		Name: r.Name, Template: r.Template, Digests: digests(r), Rank: m.Revisions[r.Name].rank(),
	})
	size, keep := 0, len(m.Former)
	for keep > 0 && len(m.Former)-keep < maxFormer {
		if size += m.Former[keep-1].weight(); size > maxFormerSize {
			break
		}
		keep--
	}
	m.Former = slices.Delete(m.Former, 0, keep)
}

// formerly returns the earlier primary that r equals in template and images, nil
// if there is none. The same Revision, moved forward to again, is none. Without
// digests an image may have changed behind its tag, so that only equal and known
// digests count.
func (m *Memory) formerly(r *Revision) *Former {
	have := digests(r)
	if r.Template == "" || len(have) == 0 {
		return nil
	}
	for i := len(m.Former) - 1; i >= 0; i-- {
		if f := &m.Former[i]; f.Name != r.Name && f.Template == r.Template && slices.Equal(f.Digests, have) {
			return f
		}
	}
	return nil
}

// digests returns the resolved images, or nil unless all of them are resolved.
func digests(r *Revision) []string {
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

// newer is the Revision of the higher generation; a may be nil.
func newer(a, b *Revision) *Revision {
	if a == nil || compareGeneration(*a, *b) < 0 {
		return b
	}
	return a
}

func share(split []Share, revision string) int64 {
	for _, s := range split {
		if s.Revision == revision {
			return s.Percent
		}
	}
	return 0
}
