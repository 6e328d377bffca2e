// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"fmt"
	"time"
)

// confirmation says until when a state is known to have lasted: the caches had it, and the API server, too.
type confirmation struct {
	// id is that of the step, 0 for the base.
	id uint64
	at time.Time
}

// next folds one step. How long a state lasts is known only of the newest one, and only if the API server still has it
// then. An update arrives when the process reads it: after a pause, that is long after its state began, and not before
// another update that ended it. So nothing is decided by how long a state has lasted until that is confirmed. In normal
// life, nothing is due, and nobody is asked.
func (f *fold) next(m Memory, s step, baseline bool) (Result, error) {
	in := Step{
		Key: f.key, State: s.State, Baseline: baseline, Later: func() []State { return f.later(s) },
		Patient: f.patient, Unconfirmed: true,
	}
	r, err := m.Next(f.ctx, in)
	if err != nil || r.Wait || r.Unsure.IsZero() {
		return r, err
	}
	switch confirmed, err := f.confirm(s, r.Unsure, len(in.Later()) == 0); {
	case err != nil:
		return r, err
	case !confirmed:
		return r, nil
	}
	if in.Unconfirmed = false; s.id == 0 {
		in.At = f.confirmed.at
	}
	return m.Next(f.ctx, in)
}

// confirm reports whether the state of a step is known to have lasted until something was due. If that is not known
// yet of the newest one, it asks. A confirmation outlives a write that fails: what it led to has happened, whatever
// comes next.
func (f *fold) confirm(s step, due time.Time, newest bool) (bool, error) {
	if f.confirmed.id == s.id && !f.confirmed.at.Before(due) {
		return true, nil
	}
	if !newest {
		return false, nil // it is over, and nobody knows since when
	}
	kind, ok := f.o.Kind.(Confirmer)
	if !ok {
		return false, nil
	}
	current, err := kind.Current(f.ctx, f.key, s.Parts, due)
	if err != nil {
		return false, fmt.Errorf("asking the API server whether %s is still as it was: %w", f.key, err)
	}
	if !current {
		f.lagging = true // the newer state will arrive as an update
		return false, nil
	}
	f.confirmed = confirmation{id: s.id, at: f.now}
	return true, nil
}
