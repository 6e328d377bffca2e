// SPDX-License-Identifier: Apache-2.0

package valid

import (
	"errors"
	"fmt"
)

// ProblemError becomes a condition: a reason for machines, and a message that says what is
// wrong, where, and how to fix it.
type ProblemError struct {
	Reason  string
	Message string
	// Passing marks a failed lookup: the source may be valid.
	Passing bool
}

func (p *ProblemError) Error() string { return p.Message }

// Problemf returns a ProblemError.
func Problemf(reason, format string, args ...any) error {
	return &ProblemError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Passing reports whether an error says nothing about the source itself.
func Passing(err error) bool {
	var p *ProblemError
	return !errors.As(err, &p) || p.Passing
}
