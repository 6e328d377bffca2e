// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"fmt"
)

// problem becomes a condition: a reason for machines, and a message that says what is
// wrong, where, and how to fix it.
type problem struct {
	reason  string
	message string
	// passing marks a failed lookup: the source may be valid.
	passing bool
}

func (p *problem) Error() string { return p.message }

func problemf(reason, format string, args ...any) error {
	return &problem{reason: reason, message: fmt.Sprintf(format, args...)}
}

// passing reports whether an error says nothing about the source itself.
func passing(err error) bool {
	var p *problem
	return !errors.As(err, &p) || p.passing
}
