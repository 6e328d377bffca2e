// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"
	"time"
)

// Time is a moment, in nanoseconds since the start of 1970 in UTC; 0 is none. Its JSON is a string as in RFC
// 3339, in UTC and with all its digits, which is also that of a time.Time. Unlike a time.Time, two of the same moment
// are equal, and apimachinery's equality.Semantic can compare them.
type Time int64

// TimeOf returns the Time of a time.Time, which must be before the year 2262.
func TimeOf(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	return Time(t.UnixNano())
}

// Time returns it as a time.Time in UTC; the zero time for none.
func (t Time) Time() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(t)).UTC()
}

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	return t.Time().MarshalJSON() //nolint:wrapcheck // years from 1678 to 2262 have a form
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Time) UnmarshalJSON(raw []byte) error {
	var read time.Time
	if err := read.UnmarshalJSON(raw); err != nil {
		return fmt.Errorf("reading a time: %w", err)
	}
	*t = TimeOf(read)
	return nil
}
