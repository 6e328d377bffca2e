package credentials

import "fmt"

// WithheldError says why nothing is shown, for a condition: a reason for
// machines, and for people what is wrong, where, and what would be right. It
// never holds a value.
type WithheldError struct {
	Reason, Message string
}

func (p *WithheldError) Error() string { return p.Message }

func wrong(reason, format string, args ...any) error {
	return &WithheldError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
