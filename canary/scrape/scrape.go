// Package scrape scrapes the metrics of pods.
//
// Its invariants:
//   - It connects only to pods, without credentials, and follows no redirects.
//   - It keeps only the series that a mapping names. No pod can make it read, wait or
//     remember without limit.
//   - It scrapes all pods of a Service at the same time.
package scrape

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// Target is one place to read.
type Target struct {
	// Pod that is asked; with a new UID, whatever answers is someone else.
	Pod types.UID
	// Entry says that queue-proxy is asked, and not the application.
	Entry bool
	// Address is the pod's own.
	Address netip.AddrPort
	// Path and query, beginning with a slash.
	Path string
	// Runtime that the template declares; it chooses the mappings.
	Runtime string
	// Dying: the pod is being deleted, and what it counts is soon lost.
	Dying bool
}

// Check refuses what no pod's own address is.
func (t Target) Check() error {
	ip := t.Address.Addr()
	switch {
	case !ip.IsValid() || t.Address.Port() == 0:
		return fmt.Errorf("the address %s is incomplete; a pod's IP and a port are needed", t.Address)
	case ip.IsLoopback() || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast():
		return fmt.Errorf("the address %s cannot be a pod's own", t.Address)
	case !strings.HasPrefix(t.Path, "/"):
		return fmt.Errorf("the path is %q; it must begin with a slash", t.Path)
	}
	return nil
}

// Limits of one reading.
type Limits struct {
	// Timeout of a whole reading.
	Timeout time.Duration
	// Body is the most bytes of an answer, after decompression.
	Body int64
	// Series is the most series that mappings name.
	Series int
}

// DefaultLimits are in force where config-canary says nothing else.
var DefaultLimits = Limits{Timeout: 5 * time.Second, Body: 4 << 20, Series: 10_000}

// Class of a failed reading, for a label.
type Class string

// The classes.
const (
	Timeout       Class = "timeout"
	Refused       Class = "refused"
	Unreachable   Class = "unreachable"
	Status        Class = "status"
	TooLarge      Class = "too_large"
	TooManySeries Class = "too_many_series"
	Unparsable    Class = "unparsable"
	BadTarget     Class = "bad_target"
)

// Classes returns all classes, in a fixed order.
func Classes() []Class {
	return []Class{Timeout, Refused, Unreachable, Status, TooLarge, TooManySeries, Unparsable, BadTarget}
}

// ReadError is why a reading failed.
type ReadError struct {
	Class Class
	// Code of the answer, if it was a wrong one.
	Code int
	Err  error
}

func (f *ReadError) Error() string { return string(f.Class) + ": " + f.Err.Error() }

func (f *ReadError) Unwrap() error { return f.Err }

// ClassOf returns the class of an error, empty for none.
func ClassOf(err error) Class {
	var f *ReadError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &f):
		return f.Class
	}
	return Unreachable
}

// Reading is what one target said.
type Reading struct {
	Target Target
	// At is when the answer was complete.
	At time.Time
	// Took is how long that was after asking.
	Took time.Duration
	// Err is a *ReadError, nil if the target was read.
	Err error
	Exposition
}

// Exposition is what mappings made of an answer.
type Exposition struct {
	// Start of the process, in seconds since 1970; 0 if it does not say.
	Start float64
	// Sources are the numbers by mapping, the one that is trusted first; empty ones
	// are left out.
	Sources []Source
	// Rejected counts samples that are no counts: NaN, infinite or negative.
	Rejected int
	// Duplicates counts series that were told before in the same answer; of those only
	// the first counts.
	Duplicates int
	// Hints say in words why series mean less than they might: a few, and short.
	Hints []string
}

// Source is what one mapping read.
type Source struct {
	Name   string
	Values map[mapping.Key]float64
}
