// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/duration"
)

// Duration is a duration such as 2m or 1h30m. ISO 8601, such as PT2M, is accepted too.
//
// +kubebuilder:validation:Type=string
type Duration struct {
	time.Duration `json:"-"`
}

// MarshalJSON writes the notation of Kubernetes.
func (d Duration) MarshalJSON() ([]byte, error) {
	return []byte(`"` + d.String() + `"`), nil
}

// UnmarshalJSON reads both notations.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return fmt.Errorf("reading a duration: %w", err)
	}
	var err error
	d.Duration, err = duration.Parse(text)
	return err //nolint:wrapcheck // the message is complete
}
