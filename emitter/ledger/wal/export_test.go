// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"context"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Waiting is how many changes wait for the next append.
func (l *Log) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// CommitTogether commits several states in one append, as if all had waited for it.
func (l *Log) CommitTogether(ctx context.Context, all []*v1alpha1.CDEventSubject) []error {
	var batch []*request
	for _, next := range all {
		batch = append(batch, &request{next: next})
	}
	l.append(ctx, batch)
	var out []error
	for _, r := range batch {
		out = append(out, r.err)
	}
	return out
}

// Ahead is how many slots are kept that cannot be folded yet.
func (l *Log) Ahead() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ahead)
}

// ContentOf reads the states of a slot.
func ContentOf(o *v1alpha1.CDEventSubject) ([]*v1alpha1.CDEventSubject, error) {
	c, err := contentOf(o)
	return c.states, err
}
