// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"fmt"
	"time"
)

// Duration is a duration of a gate, written as 90s, 2m or 1h30m.
//
// +kubebuilder:validation:Type=string
type Duration struct {
	time.Duration `json:"-"`
}

// MarshalJSON writes the notation of Kubernetes.
func (d Duration) MarshalJSON() ([]byte, error) {
	return []byte(`"` + d.String() + `"`), nil
}

// UnmarshalJSON reads it.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return fmt.Errorf("%s is not a duration; use a string such as 500ms, 90s, 2m or 1h30m", raw)
	}
	var err error
	if d.Duration, err = time.ParseDuration(text); err != nil {
		return fmt.Errorf("%q is not a duration; use a format such as 500ms, 90s, 2m or 1h30m", text)
	}
	return nil
}
