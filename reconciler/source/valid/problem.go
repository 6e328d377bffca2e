// SPDX-License-Identifier: Apache-2.0

package valid

import (
	"errors"
	"fmt"
)

// Problem becomes a condition: a reason for machines, and a message that says what is
// wrong, where, and how to fix it.
type Problem struct {
	Reason  string
	Message string
	// Passing marks a failed lookup: the source may be valid.
	Passing bool
}

func (p *Problem) Error() string { return p.Message }

// Problemf returns a Problem as an error.
func Problemf(reason, format string, args ...any) error {
	return &Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Passing reports whether an error says nothing about the source itself.
func Passing(err error) bool {
	var p *Problem
	return !errors.As(err, &p) || p.Passing
}
