// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Duration is a duration of a gate, written as 90s, 2m or 1h30m.
//
// +kubebuilder:validation:Type=string
type Duration struct {
	time.Duration `json:"-"`
}

// MarshalJSON writes the notation of Kubernetes, but for less than a millisecond: a gate has no µs.
func (d Duration) MarshalJSON() ([]byte, error) {
	text := d.String()
	if d.Duration != 0 && d.Abs() < time.Millisecond {
		text = strconv.FormatFloat(float64(d.Duration)/float64(time.Millisecond), 'f', -1, 64) + "ms"
	}
	return []byte(`"` + text + `"`), nil
}

// UnmarshalJSON reads it.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return fmt.Errorf("%s is not a duration; %w", raw, errNotation)
	}
	var err error
	if *d, err = ParseDuration(text); err != nil {
		return fmt.Errorf("%q is not a duration; %w", text, err)
	}
	return nil
}

// notation is that of the schema, apart from the sign: with it, an error tells of the limits.
var notation = regexp.MustCompile(
	`^-?(0|([0-9]{1,6}(\.[0-9]{1,9})?h)?([0-9]{1,6}(\.[0-9]{1,9})?m)?([0-9]{1,6}(\.[0-9]{1,9})?s)?([0-9]{1,6}(\.[0-9]{1,9})?ms)?)$`,
)

var errNotation = errors.New("use a format such as 500ms, 90s, 2m or 1h30m, with each of h, m, s and ms at most once, in this order")

// ParseDuration reads a duration as the schema of a gate does. The error says what would be right.
func ParseDuration(text string) (Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || !notation.MatchString(text) || d == 0 && text[0] == '-' {
		return Duration{}, errNotation
	}
	return Duration{d}, nil
}
