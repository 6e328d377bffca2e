// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/knative-cdevents/knative-cdevents/api/duration"
)

// request is the requested change. The Task passes its params as environment
// variables, never as part of a command.
type request struct {
	namespace, service string
	// canary gets percent of the traffic, and baseline the rest. If baseline is empty, it
	// is the Revision that has all traffic.
	canary, baseline string
	percent          int64
	// from lists the percentages that the canary may have now; any if it is empty.
	from []int64
	// gate must be able to measure before anything is changed; no check if it is empty.
	gate string
	// older lets the canary be an older Revision than the baseline.
	older bool
	// timeout bounds the whole change, until the split is in effect on the Route.
	timeout time.Duration
}

// defaultTimeout allows for a slow ingress, and for a Revision that scales from zero.
const defaultTimeout = 90 * time.Second

// read parses the environment, and reports all errors at once.
func read(getenv func(string) string) (request, error) {
	var wrong []error
	object := func(name, value string, optional bool) string {
		if value == "" && optional {
			return ""
		}
		if problems := validation.IsDNS1123Subdomain(value); len(problems) > 0 {
			wrong = append(wrong, fmt.Errorf("%s is %q: %s", name, value, strings.Join(problems, "; ")))
		}
		return value
	}
	percent := func(name, value string) int64 {
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil || n < 0 || n > 100 {
			wrong = append(wrong, fmt.Errorf("%s is %q: it must be a whole number from 0 to 100", name, value))
		}
		return n
	}
	r := request{
		namespace: object("namespace", getenv("NAMESPACE"), false),
		service:   object("service", getenv("SERVICE"), false),
		canary:    object("canary", getenv("CANARY"), false),
		baseline:  object("baseline", getenv("BASELINE"), true),
		gate:      object("gate", getenv("GATE"), true),
		percent:   percent("percent", getenv("PERCENT")),
		timeout:   defaultTimeout,
	}
	if from := getenv("FROM"); from != "" {
		for part := range strings.SplitSeq(from, ",") {
			r.from = append(r.from, percent("from", part))
		}
	}
	if text := getenv("ALLOW_OLDER"); text != "" {
		var err error
		if r.older, err = strconv.ParseBool(text); err != nil {
			wrong = append(wrong, fmt.Errorf("allow-older is %q: it must be true or false", text))
		}
	}
	if text := getenv("TIMEOUT"); text != "" {
		var err error
		if r.timeout, err = duration.Parse(text); err != nil || r.timeout <= 0 {
			wrong = append(wrong, fmt.Errorf("timeout is %q: it must be a duration such as 90s", text))
		}
	}
	if r.canary != "" && r.canary == r.baseline {
		wrong = append(wrong, fmt.Errorf("canary and baseline are both %s: they must be two Revisions", r.canary))
	}
	return r, errors.Join(wrong...)
}

// allows reports whether the canary may have that percentage now.
func (r request) allows(percent int64) bool {
	return len(r.from) == 0 || slices.Contains(r.from, percent)
}
