// SPDX-License-Identifier: Apache-2.0

// Package duration parses durations of ConfigMaps, parameters and a source's delivery.
//
// Its invariant: durations are written only in the notation of Go and Kubernetes. ISO 8601, which Knative's
// duck types have, is read as well, and both mean the same everywhere. Gates have only the notation of
// Kubernetes, so that the rules of their schema can compare durations.
package duration

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// iso8601 has no years and months, because their length varies. The limits on digits keep every sum
// within a time.Duration.
var iso8601 = regexp.MustCompile(
	`^P(?:(\d{1,3})W)?(?:(\d{1,4})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,6}(?:\.\d{1,9})?)S)?)?$`,
)

// Parse parses 90s, 2m or 1h30m, and the equivalent PT90S, PT2M or PT1H30M.
func Parse(s string) (time.Duration, error) {
	if !strings.HasPrefix(s, "P") {
		d, err := time.ParseDuration(s)
		if err != nil {
			return 0, fmt.Errorf(
				"%q is not a duration; use a format such as 90s, 10m or 1h30m (ISO 8601, such as PT10M, is accepted too)",
				s,
			)
		}
		return d, nil
	}
	m := iso8601.FindStringSubmatch(s)
	if m == nil || s == "P" || strings.HasSuffix(s, "T") {
		return 0, fmt.Errorf(
			"%q is not an ISO 8601 duration in weeks, days, hours, minutes and seconds; use a format such as PT10M, or 10m",
			s,
		)
	}
	var all time.Duration
	for i, unit := range []struct {
		times int64
		name  string
	}{{7 * 24, "h"}, {24, "h"}, {1, "h"}, {1, "m"}, {1, "s"}} {
		if m[i+1] == "" {
			continue
		}
		d, err := time.ParseDuration(m[i+1] + unit.name)
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration: %w", s, err)
		}
		all += time.Duration(unit.times * int64(d))
	}
	return all, nil
}
