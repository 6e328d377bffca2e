// SPDX-License-Identifier: Apache-2.0

package model

// A Violation is what must never happen.
type Violation int8

const (
	// None means that nothing is violated.
	None Violation = iota
	// Fork means that two different contents have the same revision of a subject, or a change is not based on the one before it.
	Fork
	// Lost means that a snapshot does not have the newest committed record of a subject, or a caller was told that a change is
	// committed which is not.
	Lost
	// Backwards means that a checkpoint goes back to a lower revision.
	Backwards
	// Resurrected means that an older record follows a newer one in the log, or a deleted subject is back.
	Resurrected
	// Uncommitted means that the store or a process has a record that is not committed.
	Uncommitted
	// Disagreement means that two processes at the same position have different newest records.
	Disagreement
)

var violationNames = [...]string{"none", "fork", "lost", "backwards", "resurrected", "uncommitted", "disagreement"}

func (v Violation) String() string { return violationNames[v] }

// commit adds the changes of an append that the server accepts to the chains of their subjects.
func (s *state) commit(w *write) Violation {
	first := None
	for i, r := range w.records {
		v := None
		if w.changes[i].id != 0 {
			v = s.commitChange(i, w.changes[i])
		} else if top := s.top(i); r.revision != 0 && r != top {
			// Whether the subject is deleted meanwhile does not matter: the process need not know.
			v = Fork
			if r.revision < top.revision {
				v = Resurrected
			}
		}
		if first == None {
			first = v
		}
	}
	return first
}

func (s *state) commitChange(subject int, c change) Violation {
	switch {
	case s.entries[subject].gone:
		return Lost
	case c.base != s.top(subject):
		return Fork
	}
	s.chain[subject][c.base.revision+1] = c.id
	return None
}

// told checks the changes whose callers are told that they are committed.
func (s *state) told(w *write) Violation {
	for i, c := range w.changes {
		if c.id != 0 && s.chain[i][c.base.revision+1] != c.id {
			return Lost
		}
	}
	return None
}

// store checks a write of an entry that the server accepts.
func (s *state) store(c *checkpoint) Violation {
	e, top := &s.entries[c.subject], s.top(int(c.subject))
	switch {
	case e.gone:
		return Resurrected
	case c.deletes && e.record != top:
		return Lost
	case !c.deletes && c.record.revision < e.record.revision:
		return Backwards
	}
	return None
}

// check returns what a state violates.
func (x *steps) check(s *state) Violation {
	if v := s.checkContents(); v != None {
		return v
	}
	// All processes crash now, and what they have under way never arrives: what does a new one know?
	var p process
	x.snapshot(&p, s)
	for i := range p.known {
		switch k := &p.known[i]; {
		case s.entries[i].gone && !k.gone:
			return Resurrected
		case !s.entries[i].gone && k.newest != s.top(i):
			return Lost
		}
	}
	return s.checkAgreement()
}

// committed returns whether a record is in the chain of its subject.
func (s *state) committed(subject int, r record) bool {
	return r.revision == 0 || s.chain[subject][r.revision] == r.id
}

// checkContents checks that everything that is stored or known is committed. Processes may send the events of what they know.
func (s *state) checkContents() Violation {
	for i := range s.entries {
		for k := range s.ring {
			if !s.committed(i, s.ring[k].records[i]) {
				return Uncommitted
			}
		}
		if !s.committed(i, s.entries[i].record) {
			return Uncommitted
		}
		for l := range s.process {
			if !s.committed(i, s.process[l].known[i].newest) {
				return Uncommitted
			}
		}
	}
	return None
}

// checkAgreement checks that two processes at the same position know the same. One may have seen a checkpoint that the other has not.
func (s *state) checkAgreement() Violation {
	a, b := &s.process[0], &s.process[1]
	if a.mode == starting || b.mode == starting || a.end != b.end {
		return None
	}
	for i := range a.known {
		k, m := &a.known[i], &b.known[i]
		if k.newest.revision < m.newest.revision {
			k, m = m, k
		}
		if !k.gone && !m.gone && k.newest.revision > m.newest.revision && k.newest.revision > k.stored {
			return Disagreement
		}
	}
	return None
}
