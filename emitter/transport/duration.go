// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/duration"
)

// calendar matches a duration with years or months, which have no fixed length. Eventing
// takes a month for 730 h 29 min 6 s, and P3000000000Y for 188 years.
var calendar = regexp.MustCompile(`^P[0-9.,]+[YM]`)

// readDuration parses a duration and checks its limits; nil leaves the default.
func readDuration(text *string, atLeast, atMost time.Duration, into *time.Duration) error {
	if text == nil {
		return nil
	}
	d, err := duration.Parse(*text)
	switch {
	case calendar.MatchString(*text):
		return errors.New("years and months have no fixed length; use days or hours, for example P1D or PT12H")
	case err != nil:
		return errors.New("it must be an ISO 8601 duration, for example PT30S; 30s is accepted too")
	case d > atMost:
		return fmt.Errorf("it is too long; the longest is %s", atMost)
	case d < atLeast:
		return fmt.Errorf("it is too short; the shortest is %s", atLeast)
	}
	*into = d
	return nil
}
