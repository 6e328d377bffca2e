// SPDX-License-Identifier: Apache-2.0

package model

// A Rule is a rule of the protocol that the processes break.
type Rule int8

// The rules, named after what a process does that breaks them.
const (
	// Protocol breaks no rule.
	Protocol Rule = iota
	// NoCarry overwrites live records.
	NoCarry
	// CarryOutdated carries records that are not the newest of their subject.
	CarryOutdated
	// NoPrecondition writes a slot whatever its version.
	NoPrecondition
	// UnfoldedVersion takes the version of a slot from the watch before it folds the content.
	UnfoldedVersion
	// FoldWithGaps folds a later position than end+1.
	FoldWithGaps
	// SkipCompare tries all changes again after a conflict, although their subject may have moved.
	SkipCompare
	// TimeoutIsCommitted takes an append without answer for committed.
	TimeoutIsCommitted
	// AnyAttempt takes an append without answer for committed if the slot holds its position, whoever wrote it.
	AnyAttempt
	// CheckpointUncommitted writes a checkpoint with changes whose append is under way.
	CheckpointUncommitted
	// CheckpointForced repeats a checkpoint after a conflict although the entry holds a higher revision.
	CheckpointForced
	// CheckpointAssumed takes a checkpoint for stored as soon as it is sent.
	CheckpointAssumed
	// EntriesFirst starts from two snapshots: the entries, and later the ring.
	EntriesFirst
	// RingFirst starts from two snapshots: the ring, and later the entries.
	RingFirst
	// DeleteUnconfirmed deletes an entry whose checkpoint is not known to have the last revision.
	DeleteUnconfirmed
	// ChangeFinished changes a subject after the revision that allows its deletion.
	ChangeFinished
	// CheckpointRecreates creates an entry that is gone, to store a checkpoint.
	CheckpointRecreates
	// FoldDead takes records without entry for a live subject at the start.
	FoldDead
)

var ruleNames = [...]string{
	"Protocol", "NoCarry", "CarryOutdated", "NoPrecondition", "UnfoldedVersion", "FoldWithGaps", "SkipCompare", "TimeoutIsCommitted",
	"AnyAttempt", "CheckpointUncommitted", "CheckpointForced", "CheckpointAssumed", "EntriesFirst", "RingFirst", "DeleteUnconfirmed",
	"ChangeFinished", "CheckpointRecreates", "FoldDead",
}

func (r Rule) String() string { return ruleNames[r] }

// A Config has the bounds of a search.
type Config struct {
	// Slots is the size of the ring, and Positions the last position of the log.
	Slots, Positions int8
	// Revisions is the last one of each subject.
	Revisions [subjects]int8
	// Crashes is how often a process may crash, Losses how often the answer to an append may be lost or replaced by a
	// conflict, Late how often a checkpoint or a deletion may arrive at any later time, and Edits how often others may edit
	// a slot without changing its content.
	Crashes, Losses, Late, Edits int8
	// Deletes lets processes delete the entries of finished subjects: those with the last revision.
	Deletes bool
	// Slow lets other things happen, of all processes, between a request, its arrival at the server, and the handling of its
	// answer. Otherwise these are one step, unless the request or its answer is lost or late.
	Slow bool
	// Broken is the rule that the processes break.
	Broken Rule
	// Ignore is a violation that does not count, to see what else follows from a broken rule.
	Ignore Violation
}

// A step is what happens in a state.
type step struct {
	// In what, {p} stands for the process and {n} for what the step is about: a subject, a position or a slot.
	what string
	// What the process did just before, in the same step.
	sent    string
	process int
	about   int8
	next    state
	// What the step violates, if anything.
	violation Violation
}

// steps finds everything that can happen in a state.
type steps struct {
	Config
	// emit gets each step, with its next state not normalized yet.
	emit func(*step)
}

// from emits all steps that are possible in a state.
func (x *steps) from(s *state) {
	for l := range s.process {
		p := &s.process[l]
		if p.mode == starting {
			x.started(s, l)
			continue
		}
		if s.crashes < x.Crashes {
			x.crash(s, l)
		}
		if p.mode == unsure && !x.Slow {
			// It reads the slot before it does anything else.
			x.readSlot(s, l)
			if x.Broken == CheckpointUncommitted {
				x.beginCheckpoint(s, l)
			}
			continue
		}
		x.startOver(s, l)
		x.watchSlots(s, l)
		x.watchEntries(s, l)
		switch p.mode {
		case ready:
			x.begin(s, l)
		case appending:
			x.appending(s, l)
		case reading, unsure:
			x.readSlot(s, l)
		}
		if p.checkpoint.active {
			x.checkpointing(s, l)
		} else {
			x.beginCheckpoint(s, l)
		}
	}
	x.orphans(s)
	if s.edits < x.Edits {
		x.edit(s)
	}
}

func (x *steps) slotOf(position int8) int8 { return position % x.Slots }

// target is the slot of the next position of a process.
func (x *steps) target(p *process) int8 { return x.slotOf(p.end + 1) }

// The server.

// land lets the server answer an append.
func (x *steps) land(s *state, w *write) (answer, Violation) {
	k := x.slotOf(w.position)
	if s.ring[k].version != w.version && x.Broken != NoPrecondition {
		return refused, None
	}
	v := s.commit(w)
	s.ring[k] = slot{version: s.ring[k].version + 1, position: w.position, attempt: w.attempt, records: w.records}
	w.version = s.ring[k].version
	s.folds[w.position] = s.ring[k]
	return accepted, v
}

// landCheckpoint lets the server answer a checkpoint or a deletion. It returns whether the server accepted it.
func (x *steps) landCheckpoint(s *state, c *checkpoint) (bool, Violation) {
	e := &s.entries[c.subject]
	switch {
	case e.gone && x.Broken != CheckpointRecreates, e.version != c.version, e.version == maxVersions:
		return false, None
	}
	v := s.store(c)
	*e = entry{version: e.version + 1, record: c.record, gone: c.deletes}
	s.history[c.subject][e.version] = *e
	return true, v
}

// edit lets somebody else change the version of a slot, and nothing else.
func (x *steps) edit(s *state) {
	for k := range x.Slots {
		t := step{what: "somebody edits slot {n}", process: -1, about: k, next: *s}
		t.next.edits++
		t.next.ring[k].version++
		x.emit(&t)
	}
}

// orphans lets the writes arrive whose sender has given up or crashed. That they never arrive needs no step, since
// each is also lost where it becomes an orphan.
func (x *steps) orphans(s *state) {
	if s.orphan.position != 0 {
		t := step{what: "the orphaned append of position {n} arrives", process: -1, about: s.orphan.position, next: *s}
		_, t.violation = x.land(&t.next, &t.next.orphan)
		t.next.orphan = write{}
		x.emit(&t)
	}
	if s.orphanCP.active {
		t := step{what: "the orphaned checkpoint of subject {n} arrives", process: -1, about: s.orphanCP.subject, next: *s}
		_, t.violation = x.landCheckpoint(&t.next, &t.next.orphanCP)
		t.next.orphanCP = checkpoint{}
		x.emit(&t)
	}
}

// The life of a process.

// startOver lets a process take a new snapshot: it misses a position. What is under way is not affected.
func (x *steps) startOver(s *state, l int) {
	t := step{what: "{p} starts over", process: l, next: *s}
	p := &t.next.process[l]
	switch {
	case x.Broken != EntriesFirst && x.Broken != RingFirst:
		x.snapshot(p, s)
	case p.mode != ready:
		return
	default:
		p.mode, p.known = starting, [subjects]knowledge{}
		if x.Broken == EntriesFirst {
			t.what = "{p} starts over and reads the entries"
			x.takeEntries(p, s)
		} else {
			t.what = "{p} starts over and reads the ring"
			x.foldRing(p, s)
		}
	}
	x.emit(&t)
}

// started lets a process read the second half of what it starts from.
func (x *steps) started(s *state, l int) {
	t := step{what: "{p} reads the ring, and runs", process: l, next: *s}
	p := &t.next.process[l]
	p.mode = ready
	if x.Broken == EntriesFirst {
		x.foldRing(p, s)
	} else {
		t.what = "{p} reads the entries, and runs"
		x.takeEntries(p, s)
	}
	x.emit(&t)
}

// snapshot replaces what a process knows.
func (x *steps) snapshot(p *process, s *state) {
	p.known = [subjects]knowledge{}
	x.takeEntries(p, s)
	x.foldRing(p, s)
}

func (x *steps) takeEntries(p *process, s *state) {
	for i := range s.entries {
		p.adopt(i, &s.entries[i])
	}
}

func (x *steps) foldRing(p *process, s *state) {
	p.end = 0
	for k := range x.Slots {
		p.end = max(p.end, s.ring[k].position)
	}
	for position := max(1, p.end-x.Slots+1); position <= p.end; position++ {
		if k := x.slotOf(position); s.ring[k].position == position {
			x.fold(p, &s.ring[k])
		}
	}
	for k := range x.Slots {
		p.versions[k] = s.ring[k].version
	}
	if x.Broken == FoldDead {
		for i := range p.known {
			k := &p.known[i]
			for n := range x.Slots {
				if r := s.ring[n].records[i]; k.gone && r.revision > k.newest.revision {
					k.newest, k.at = r, s.ring[n].position
				}
			}
			k.gone = k.gone && k.newest.revision == 0
		}
	}
}

// crash lets a process forget everything and start again. What it has under way arrives later, or never. That it is down for
// a while needs no step: this is as if it does nothing, and then starts over.
func (x *steps) crash(s *state, l int) {
	p := &s.process[l]
	sent := p.mode == appending && p.answer == unanswered && s.orphan.position == 0
	stores := p.checkpoint.active && !p.checkpoint.conflict && !s.orphanCP.active
	for _, keep := range [][2]bool{{}, {true, false}, {false, true}, {true, true}} {
		if keep[0] && !sent || keep[1] && !stores {
			continue
		}
		t := step{what: "{p} crashes", process: l, next: *s}
		t.next.crashes++
		if keep[0] {
			t.next.orphan = p.write
			t.what = "{p} crashes with an append under way"
		}
		if keep[1] {
			t.next.orphanCP = p.checkpoint
			t.what = "{p} crashes with a checkpoint under way"
		}
		if keep[0] && keep[1] {
			t.what = "{p} crashes with an append and a checkpoint under way"
		}
		t.next.process[l] = process{}
		x.snapshot(&t.next.process[l], s)
		x.emit(&t)
	}
}

// What a process learns.

// fold takes the content of a slot. Its position is the end, or becomes it.
func (x *steps) fold(p *process, c *slot) {
	p.end = max(p.end, c.position)
	p.versions[x.slotOf(c.position)] = c.version
	for i, r := range c.records {
		k := &p.known[i]
		switch {
		case r.revision == 0 || k.gone:
		case r.revision > k.newest.revision:
			k.newest, k.at = r, c.position
		case r.revision == k.newest.revision:
			k.at = c.position
		}
	}
	for i := range p.known {
		// Overwritten since.
		if k := &p.known[i]; k.at <= p.end-x.Slots {
			k.at = 0
		}
	}
}

// adopt takes what a process sees of an entry.
func (p *process) adopt(i int, e *entry) {
	k := &p.known[i]
	if e.gone {
		*k = knowledge{gone: true, version: e.version}
		return
	}
	k.version = e.version
	k.stored = max(k.stored, e.record.revision)
	if e.record.revision > k.newest.revision {
		k.newest, k.at = e.record, 0
	}
}

// watchSlots delivers a write of the position that a process waits for.
func (x *steps) watchSlots(s *state, l int) {
	p := &s.process[l]
	for position := p.end + 1; position <= x.Positions; position++ {
		c := s.folds[position]
		if c.position == 0 {
			break
		}
		t := step{what: "{p} sees position {n}", process: l, about: position, next: *s}
		q := &t.next.process[l]
		if position == p.end+1 || x.Broken == FoldWithGaps {
			x.fold(q, &c)
			x.emit(&t)
		} else if x.Broken == UnfoldedVersion {
			q.versions[x.slotOf(position)] = c.version
			t.what = "{p} takes the version of position {n}, and does not fold it"
			x.emit(&t)
		}
	}
}

// watchEntries delivers a state of an entry that is later than the one which a process knows: the latest, or, if deliveries are
// slow, any.
func (x *steps) watchEntries(s *state, l int) {
	for i := range s.entries {
		for v := s.process[l].known[i].version + 1; v <= s.entries[i].version; v++ {
			e := &s.history[i][v]
			if !x.Slow {
				e = &s.entries[i]
			}
			t := step{what: "{p} sees the entry of subject {n}", process: l, about: int8(i), next: *s}
			t.next.process[l].adopt(i, e)
			x.emit(&t)
		}
	}
}

// Appending.

var decisions = [...]string{
	"", "{p} appends a change of subject 0", "{p} appends a change of subject 1", "{p} appends changes of both subjects",
}

// begin lets a process decide changes, and append them.
func (x *steps) begin(s *state, l int) {
	p := &s.process[l]
	for batch := 1; batch < 1<<subjects; batch++ {
		t := step{what: decisions[batch], process: l, next: *s}
		q := &t.next.process[l]
		possible := true
		for i := range p.known {
			if batch&(1<<i) == 0 {
				continue
			}
			k := &p.known[i]
			possible = possible && !k.gone && k.newest.revision < x.Revisions[i]
			q.write.changes[i] = change{newName, k.newest}
		}
		if possible && p.end < x.Positions {
			x.send(s, q)
			x.deliver(&t)
		}
	}
}

// send sends the changes of a process to the next position, and carries what they would overwrite.
func (x *steps) send(s *state, p *process) {
	k := x.target(p)
	changes := p.write.changes
	p.mode, p.answer = appending, unanswered
	p.write = write{version: p.versions[k], position: p.end + 1, attempt: newName, changes: changes}
	for i := range p.known {
		know := &p.known[i]
		switch {
		case changes[i].id != 0:
			p.write.records[i] = changes[i].record()
		case x.Broken == NoCarry:
		case x.Broken == CarryOutdated:
			// If the server's slot has another content by now, it refuses the write.
			if r := s.ring[k].records[i]; !know.gone && know.stored < r.revision {
				p.write.records[i] = r
			}
		case know.at > 0 && know.at == p.write.position-x.Slots && know.stored < know.newest.revision:
			p.write.records[i] = know.newest
		}
	}
}

// deliver emits a step that may send an append, with everything that can become of it.
func (x *steps) deliver(t *step) {
	if t.next.process[t.process].mode != appending || x.Slow {
		x.emit(t)
		return
	}
	sent, what := t.next, t.what
	if t.sent != "" {
		what = t.sent + "; " + what
	}
	x.arrive(&sent, t.process, what)
	x.giveUp(&sent, t.process, what)
	if sent.crashes < x.Crashes {
		x.crash(&sent, t.process)
	}
}

// appending lets the append of a process reach the server, its answer reach the process, or get lost.
func (x *steps) appending(s *state, l int) {
	if s.process[l].answer == unanswered {
		x.arrive(s, l, "")
	} else {
		t := step{process: l, next: *s}
		x.hear(&t)
		x.emit(&t)
	}
	x.giveUp(s, l, "")
}

// arrive lets the append of a process reach the server.
func (x *steps) arrive(s *state, l int, sent string) {
	t := step{what: "the append of {p} arrives", sent: sent, process: l, next: *s}
	q := &t.next.process[l]
	t.about = q.write.position
	q.answer, t.violation = x.land(&t.next, &q.write)
	if x.Slow || t.violation != None {
		x.emit(&t)
		return
	}
	landed := t.next
	x.hear(&t)
	x.settle(&t)
	x.giveUp(&landed, l, sent)
}

// settle emits a step after which a process may have to read forward, and lets it do so at once unless processes are slow.
func (x *steps) settle(t *step) {
	p := &t.next.process[t.process]
	for !x.Slow && p.mode == reading {
		k := x.target(p)
		x.readForward(&t.next, p, k, &t.next.ring[k])
	}
	x.deliver(t)
}

// hear lets a process take the answer to its append.
func (x *steps) hear(t *step) {
	p := &t.next.process[t.process]
	t.about = p.write.position
	if p.answer == accepted {
		t.what = "{p} writes position {n}"
		t.violation = x.confirmed(&t.next, p, p.write.version)
	} else {
		t.what = "{p} hears of a conflict at position {n}"
		p.mode, p.answer = reading, unanswered
	}
}

// giveUp loses the answer to an append, or replaces it by a conflict. The append may be still under way.
func (x *steps) giveUp(s *state, l int, sent string) {
	if s.losses == x.Losses {
		return
	}
	p := &s.process[l]
	t := step{what: "{p} gives up waiting for position {n}, which never arrives", sent: sent, process: l, about: p.write.position, next: *s}
	q := &t.next.process[l]
	t.next.losses++
	q.mode, q.answer = unsure, unanswered
	switch p.answer {
	case unanswered:
		x.emit(&t)
		if s.orphan.position == 0 {
			t.what = "{p} gives up waiting for position {n}, which is under way"
			t.next.orphan = p.write
			x.emit(&t)
		}
	case accepted:
		t.what = "{p} gives up waiting for position {n}, which is written"
		x.emit(&t)
		t.what = "{p} hears of a conflict, although it has written position {n}"
		q.mode = reading
		x.settle(&t)
	case refused:
		t.what = "{p} gives up waiting for position {n}, which is refused"
		x.emit(&t)
	}
}

// confirmed tells the callers of a process that their changes are committed.
func (x *steps) confirmed(s *state, p *process, version int8) Violation {
	v := s.told(&p.write)
	if p.write.position == p.end+1 {
		x.fold(p, &slot{version: version, position: p.write.position, records: p.write.records})
	}
	p.finish()
	return v
}

// finish ends an append.
func (p *process) finish() { p.mode, p.write, p.answer = ready, write{}, unanswered }

// readSlot lets a process read the slot of its next position after a conflict, or that of its append without answer.
func (x *steps) readSlot(s *state, l int) {
	t := step{what: "{p} reads slot {n}", process: l, next: *s}
	p := &t.next.process[l]
	switch {
	case p.hasRead:
		t.what = "{p} handles what it read of slot {n}"
	case p.mode == unsure:
		p.reads = x.slotOf(p.write.position)
		p.read = s.ring[p.reads]
	default:
		p.reads = x.target(p)
		p.read = s.ring[p.reads]
	}
	t.about = p.reads
	if x.Slow && !p.hasRead {
		p.hasRead = true
		x.emit(&t)
		return
	}
	k, now := p.reads, p.read
	p.reads, p.read, p.hasRead = 0, slot{}, false
	if p.mode == unsure {
		var mine bool
		if mine, t.violation = x.resolve(&t.next, p, &now); mine {
			t.what = "{p} finds its append in slot {n}"
		} else {
			t.what = "{p} does not find its append in slot {n}"
		}
	} else {
		x.readForward(&t.next, p, k, &now)
	}
	x.deliver(&t)
}

// resolve decides about an append without answer. It returns whether the slot holds it.
func (x *steps) resolve(s *state, p *process, now *slot) (bool, Violation) {
	mine := now.attempt == p.write.attempt || x.Broken == TimeoutIsCommitted ||
		x.Broken == AnyAttempt && now.position == p.write.position
	if mine {
		return true, x.confirmed(s, p, now.version)
	}
	p.finish()
	return false, None
}

// readForward handles the content of slot k, which was that of the next position, after a conflict.
func (x *steps) readForward(s *state, p *process, k int8, now *slot) {
	switch {
	case now.position == p.end+1:
		x.fold(p, now)
	case now.position > p.end+1:
		x.snapshot(p, s)
	default:
		p.versions[k] = now.version
		x.retry(s, p)
	}
}

// retry sends those changes again whose subject has not moved.
func (x *steps) retry(s *state, p *process) {
	left := false
	for i := range p.known {
		c, k := &p.write.changes[i], &p.known[i]
		if x.Broken != SkipCompare && (k.gone || c.base != k.newest) {
			*c = change{}
		}
		left = left || c.id != 0
	}
	if !left || p.end >= x.Positions {
		p.finish()
		return
	}
	x.send(s, p)
}

// Checkpoints.

// beginCheckpoint lets a process send the newest record of a subject to its entry, or delete the entry.
func (x *steps) beginCheckpoint(s *state, l int) {
	p := &s.process[l]
	for i := range p.known {
		k := &p.known[i]
		r := k.newest
		if c := p.write.changes[i]; x.Broken == CheckpointUncommitted && (p.mode == appending || p.mode == unsure) && c.id != 0 {
			r = c.record()
		}
		if r.revision > k.stored && !k.gone {
			t := step{what: "{p} sends a checkpoint of subject {n}", process: l, about: int8(i), next: *s}
			if x.Broken == CheckpointAssumed {
				t.next.process[l].known[i].stored = r.revision
			}
			x.sendCheckpoint(&t, checkpoint{active: true, subject: int8(i), version: k.version, record: r})
		}
		last := x.Revisions[i]
		if x.Broken == ChangeFinished {
			last--
		}
		if x.Deletes && !k.gone && k.newest.revision == last && (k.stored == last || x.Broken == DeleteUnconfirmed) {
			t := step{what: "{p} deletes the entry of subject {n}", process: l, about: int8(i), next: *s}
			x.sendCheckpoint(&t, checkpoint{active: true, subject: int8(i), version: k.version, deletes: true})
		}
	}
}

// sendCheckpoint emits what can become of a checkpoint or a deletion.
func (x *steps) sendCheckpoint(t *step, c checkpoint) {
	before := t.next
	if x.Slow {
		t.next.process[t.process].checkpoint = c
		x.emit(t)
		return
	}
	if before.late < x.Late && !before.orphanCP.active {
		t.next.late++
		t.next.orphanCP = c
		x.emit(&step{what: t.what + ", which arrives later", process: t.process, about: t.about, next: t.next})
	}
	t.next = before
	for range maxVersions {
		var done bool
		done, t.violation = x.landCheckpoint(&t.next, &c)
		if done || c.deletes || !x.afterConflict(&t.next, &t.next.process[t.process], &c) {
			break
		}
	}
	x.emit(t)
}

// checkpointing lets a checkpoint reach the server, or a process read the entry after a conflict.
func (x *steps) checkpointing(s *state, l int) {
	t := step{what: "the checkpoint of {p} arrives at the entry of subject {n}", process: l, next: *s}
	q := &t.next.process[l]
	c := &q.checkpoint
	t.about = c.subject
	if !c.conflict {
		var done bool
		done, t.violation = x.landCheckpoint(&t.next, c)
		c.conflict = true
		if done || c.deletes {
			*c = checkpoint{}
		}
	} else {
		t.what = "{p} reads the entry of subject {n} after a conflict"
		if x.afterConflict(&t.next, q, c) {
			c.conflict = false
		} else {
			*c = checkpoint{}
		}
	}
	x.emit(&t)
}

// afterConflict lets a process read the entry. It returns whether to try again.
func (x *steps) afterConflict(s *state, p *process, c *checkpoint) bool {
	e := &s.entries[c.subject]
	p.adopt(int(c.subject), e)
	c.version = e.version
	switch {
	case e.gone:
		return x.Broken == CheckpointRecreates
	case x.Broken == CheckpointForced:
		return true
	default:
		return e.record.revision < c.record.revision
	}
}
