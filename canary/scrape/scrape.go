// SPDX-License-Identifier: Apache-2.0

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

// Target is one endpoint to scrape.
type Target struct {
	// Pod is the UID of the pod. With a new UID, another pod answers.
	Pod types.UID
	// Container is the ID of the container that serves the endpoint, which changes whenever it restarts. It was known
	// before the scrape: no container that ended earlier gives the answer. Empty if it is not known which one serves it.
	Container string
	// Entry means that the target is queue-proxy, not the application.
	Entry bool
	// Address is the pod's own.
	Address netip.AddrPort
	// Path and query, starting with a slash.
	Path string
	// Runtime is what the template declares; it selects the mappings.
	Runtime string
	// Dying means that the pod is being deleted, so its counts are soon lost.
	Dying bool
}

// Check refuses an address that cannot be a pod's own.
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

// Class of a failed reading, used as a label.
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

// ReadError tells why a reading failed.
type ReadError struct {
	Class Class
	// Code is the status code, if it was wrong.
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

// Reading is the result of scraping one target.
type Reading struct {
	Target Target
	// At is when the answer was complete.
	At time.Time
	// Took is the time from request to complete answer.
	Took time.Duration
	// Err is a *ReadError, nil if the target was read.
	Err error
	Exposition
}

// Exposition is what mappings read from an answer.
type Exposition struct {
	// Start of the process, in seconds since 1970; 0 if not exported.
	Start float64
	// Sources holds the values by mapping, the most trusted first, without empty ones.
	Sources []Source
	// Rejected counts samples that are not counts: NaN, infinite, negative, or above 1e18.
	Rejected int
	// Duplicates counts series that appeared before in the same answer; only the first counts.
	Duplicates int
	// Hints holds a few short texts on why series mean less than they could.
	Hints []string
}

// Source is what one mapping read.
type Source struct {
	Name   string
	Values map[mapping.Key]float64
}
