package source

import (
	"errors"
	"fmt"
)

// problem is what a condition says: a reason for machines, and for people what
// is wrong, where, and what to do about it.
type problem struct {
	reason  string
	message string
	// passing says that it could not be found out, and may be right after all.
	passing bool
}

func (p *problem) Error() string { return p.message }

func wrong(reason, format string, args ...any) error {
	return &problem{reason: reason, message: fmt.Sprintf(format, args...)}
}

// passing says whether an error tells nothing about the source.
func passing(err error) bool {
	var p *problem
	return !errors.As(err, &p) || p.passing
}
