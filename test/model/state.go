// SPDX-License-Identifier: Apache-2.0

package model

import "slices"

// The sizes of the arrays; the bounds of a search (Config) must not exceed them.
const (
	subjects    = 2
	processes   = 2
	maxSlots    = 3
	maxPosition = 7
	maxRevision = 4
	// maxVersions is how often an entry may be written.
	maxVersions = 8
	// newName is the name of a new content or attempt. normalize gives it a lower one after each step.
	newName = 63
)

// A record is the state of a subject. The id stands for the content: each decided change has its own. The zero
// record is a subject without changes.
type record struct{ revision, id int8 }

// A slot is an object of the ring.
type slot struct {
	version, position, attempt int8
	records                    [subjects]record
}

// An entry is the checkpoint object of a subject.
type entry struct {
	version int8
	record  record
	gone    bool
}

// A change of a subject is decided on base, and leads to the record with the next revision and the given id. No id
// means no change.
type change struct {
	id   int8
	base record
}

func (c change) record() record { return record{c.base.revision + 1, c.id} }

// A write is an append on its way to the server. Position 0 means none.
type write struct {
	// The version which the slot must still have.
	version           int8
	position, attempt int8
	records           [subjects]record
	// Which of the records are changes; all others are carried.
	changes [subjects]change
}

// A checkpoint is a write of an entry on its way to the server.
type checkpoint struct {
	active  bool
	subject int8
	// The version which the entry must still have.
	version int8
	record  record
	// The server refused it, and the process must read the entry.
	conflict bool
	// It deletes the entry.
	deletes bool
}

func (c *checkpoint) of(subject int) bool { return c.active && int(c.subject) == subject }

// A mode is what a process is about to do.
type mode int8

const (
	// It may append.
	ready mode = iota
	// It has read only the entries or only the ring; only with EntriesFirst and RingFirst.
	starting
	// An append is under way.
	appending
	// The append met a conflict, and the process reads forward.
	reading
	// The process has given up waiting for the answer to its append, and must read the slot.
	unsure
)

// An answer is what the server has done with an append.
type answer int8

const (
	unanswered answer = iota
	accepted
	refused
)

// A knowledge is what a process keeps of a subject.
type knowledge struct {
	newest record
	// The newest position whose slot has the newest record; 0 if no slot has it.
	at int8
	// The revision of the checkpoint, and the version of the entry.
	stored, version int8
	// The entry is deleted.
	gone bool
}

type process struct {
	mode mode
	// The last position folded.
	end int8
	// The version of each slot with the content that was folded.
	versions [maxSlots]int8
	known    [subjects]knowledge
	// The append under way or in doubt, and the answer that waits for the process. Once it is accepted, its
	// version is the new version of the slot.
	write  write
	answer answer
	// The answer to a read that the process has not handled yet, and of which slot it is; only with Config.Slow.
	read    slot
	reads   int8
	hasRead bool
	// At most one checkpoint is under way.
	checkpoint checkpoint
}

// A state is everything: the server, the processes, the writes without sender, and what the oracle remembers.
type state struct {
	ring    [maxSlots]slot
	entries [subjects]entry
	// What the watches may still deliver: the write of each position, and each version of each entry.
	folds    [maxPosition + 1]slot
	history  [subjects][maxVersions + 1]entry
	process  [processes]process
	orphan   write
	orphanCP checkpoint

	// The chain of committed records of each subject: the id of each revision.
	chain [subjects][maxRevision + 1]int8
	// How often what has happened.
	crashes, losses, late, edits int8
}

// top returns the newest committed record of a subject.
func (s *state) top(subject int) record {
	for r := int8(maxRevision); r > 0; r-- {
		if id := s.chain[subject][r]; id != 0 {
			return record{r, id}
		}
	}
	return record{}
}

// normalize renames what has arbitrary names, and forgets what can no longer matter, so that states that behave
// alike are equal.
//
// It returns whether it has swapped the processes.
func (x *steps) normalize(s *state) bool {
	x.forget(s)
	if x.Slow {
		s.renameVersions()
	} else {
		s.forgetVersions()
	}
	swapped := s.process[1].before(&s.process[0])
	if swapped {
		s.process[0], s.process[1] = s.process[1], s.process[0]
	}
	s.renameContents()
	s.renameAttempts()
	return swapped
}

// before orders processes, which are all alike, by what they know. Names do not count, so the order of some is not defined.
func (p *process) before(q *process) bool {
	if p.mode != q.mode {
		return p.mode < q.mode
	}
	if p.end != q.end {
		return p.end < q.end
	}
	for i := range p.known {
		k, m := p.known[i], q.known[i]
		k.newest.id, m.newest.id = 0, 0
		if k != m {
			a := [...]int8{k.newest.revision, k.version, k.stored, k.at}
			b := [...]int8{m.newest.revision, m.version, m.stored, m.at}
			return slices.Compare(a[:], b[:]) < 0
		}
	}
	a := [...]int8{p.checkpoint.subject, p.checkpoint.record.revision, p.checkpoint.version, int8(p.answer), p.write.position}
	b := [...]int8{q.checkpoint.subject, q.checkpoint.record.revision, q.checkpoint.version, int8(q.answer), q.write.position}
	return slices.Compare(a[:], b[:]) < 0
}

// renameVersions numbers the versions of each entry without gaps.
func (s *state) renameVersions() {
	for i := range s.entries {
		var used [maxVersions + 1]bool
		used[s.entries[i].version] = true
		for v := range s.history[i] {
			used[v] = used[v] || s.history[i][v].version != 0
		}
		for l := range s.process {
			p := &s.process[l]
			used[p.known[i].version] = true
			used[p.checkpoint.version] = used[p.checkpoint.version] || p.checkpoint.of(i)
		}
		used[s.orphanCP.version] = used[s.orphanCP.version] || s.orphanCP.of(i)
		var names [maxVersions + 1]int8
		n := int8(-1)
		for v := range used {
			if used[v] {
				n++
			}
			names[v] = n
		}
		if n == maxVersions {
			continue
		}
		s.entries[i].version = names[s.entries[i].version]
		var history [maxVersions + 1]entry
		for v, e := range s.history[i] {
			if e.version != 0 {
				e.version = names[v]
				history[names[v]] = e
			}
		}
		s.history[i] = history
		for l := range s.process {
			p := &s.process[l]
			p.known[i].version = names[p.known[i].version]
			if p.checkpoint.of(i) {
				p.checkpoint.version = names[p.checkpoint.version]
			}
		}
		if s.orphanCP.of(i) {
			s.orphanCP.version = names[s.orphanCP.version]
		}
	}
}

// forget clears what can no longer matter to anyone.
func (x *steps) forget(s *state) {
	end := int8(maxPosition)
	version := [subjects]int8{maxVersions, maxVersions}
	for l := range s.process {
		p := &s.process[l]
		// With EntriesFirst the end is not known yet.
		if p.mode != starting {
			end = min(end, p.end)
		}
		for i := range version {
			k := &p.known[i]
			version[i] = min(version[i], k.version)
			if k.stored >= k.newest.revision {
				k.at = 0
			}
		}
	}
	for position := range s.folds {
		if int8(position) <= end {
			s.folds[position] = slot{}
		}
	}
	for i := range s.history {
		for v := range s.history[i] {
			if int8(v) <= version[i] || !x.Slow {
				s.history[i][v] = entry{}
			}
		}
	}
	x.forgetRecords(s, end)
	// A version that is not the current one never becomes it again.
	if w := &s.orphan; w.position != 0 && s.ring[x.slotOf(w.position)].version != w.version && x.Broken != NoPrecondition {
		*w = write{}
	}
	if c := &s.orphanCP; c.active && s.entries[c.subject].version != c.version {
		*c = checkpoint{}
	}
}

// forgetRecords clears records that a snapshot ignores, in slots that all processes have folded. They may matter to processes that
// break a rule.
func (x *steps) forgetRecords(s *state, end int8) {
	if x.Broken != Protocol {
		return
	}
	for i := range s.entries {
		newest := s.entries[i].record.revision
		for k := range s.ring {
			newest = max(newest, s.ring[k].records[i].revision)
		}
		for k := range s.ring {
			if r := &s.ring[k].records[i]; s.ring[k].position <= end && (r.revision < newest || r.revision == s.entries[i].record.revision) {
				*r = record{}
			}
		}
	}
}

// forgetVersions reduces the versions of entries to two: 1 is the current one, and 0 any other.
func (s *state) forgetVersions() {
	for i := range s.entries {
		for l := range s.process {
			p := &s.process[l]
			if p.known[i].version == s.entries[i].version {
				p.known[i].version = 1
			} else {
				p.known[i].version = 0
			}
		}
		if s.orphanCP.of(i) {
			s.orphanCP.version = 1
		}
		s.entries[i].version = 1
	}
}

// renameContents numbers the ids of each subject by their first appearance.
func (s *state) renameContents() {
	for i := range s.chain {
		var names [newName + 1]int8
		var n int8
		rename := func(id *int8) {
			if *id == 0 {
				return
			}
			if names[*id] == 0 {
				n++
				names[*id] = n
			}
			*id = names[*id]
		}
		inWrite := func(w *write) {
			rename(&w.records[i].id)
			rename(&w.changes[i].id)
			rename(&w.changes[i].base.id)
		}
		for r := range s.chain[i] {
			rename(&s.chain[i][r])
		}
		for k := range s.ring {
			rename(&s.ring[k].records[i].id)
		}
		for k := range s.folds {
			rename(&s.folds[k].records[i].id)
		}
		rename(&s.entries[i].record.id)
		for v := range s.history[i] {
			rename(&s.history[i][v].record.id)
		}
		for l := range s.process {
			p := &s.process[l]
			rename(&p.known[i].newest.id)
			inWrite(&p.write)
			rename(&p.read.records[i].id)
			if p.checkpoint.of(i) {
				rename(&p.checkpoint.record.id)
			}
		}
		inWrite(&s.orphan)
		if s.orphanCP.of(i) {
			rename(&s.orphanCP.record.id)
		}
	}
}

// renameAttempts numbers the attempts for which a process still waits, and forgets all others.
func (s *state) renameAttempts() {
	var names [newName + 1]int8
	for l := range s.process {
		if a := s.process[l].write.attempt; a != 0 {
			names[a] = int8(l) + 1
		}
	}
	for k := range s.ring {
		s.ring[k].attempt = names[s.ring[k].attempt]
	}
	for k := range s.folds {
		s.folds[k].attempt = 0
	}
	for l := range s.process {
		p := &s.process[l]
		p.write.attempt = names[p.write.attempt]
		p.read.attempt = names[p.read.attempt]
	}
	s.orphan.attempt = names[s.orphan.attempt]
}
