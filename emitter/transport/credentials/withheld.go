// SPDX-License-Identifier: Apache-2.0

package credentials

import "fmt"

// WithheldError says why credentials are withheld, for a condition: a reason for machines,
// and a message with what is wrong, where, and what to do. It never contains a secret value.
type WithheldError struct {
	Reason, Message string
}

func (p *WithheldError) Error() string { return p.Message }

func wrong(reason, format string, args ...any) error {
	return &WithheldError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
