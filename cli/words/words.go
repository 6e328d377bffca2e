// SPDX-License-Identifier: Apache-2.0

// Package words writes times and counts for people.
//
// Its invariant: the same time is the same number wherever it is shown. The terminal's tables, its sentences and the
// page round by one rule; that of the page is in cli/page/assets/text.js, and one table of examples tests both.
package words

import (
	"fmt"
	"time"
)

// Span writes how long something takes or has taken, for a sentence: "3 min".
func Span(d time.Duration) string {
	n, unit := units(d)
	return fmt.Sprintf("%d %s", n, map[byte]string{'s': "s", 'm': "min", 'h': "h", 'd': "days"}[unit])
}

// Short does the same for a table, as kubectl does: "3m".
func Short(d time.Duration) string {
	n, unit := units(d)
	return fmt.Sprintf("%d%c", n, unit)
}

// units counts what has passed in whole: what began 3 minutes and 50 seconds ago began "3 min" ago. There are at
// least two of a unit, except of seconds.
func units(d time.Duration) (n int64, unit byte) {
	const day = 24 * time.Hour
	switch d = max(0, d); {
	case d < 2*time.Minute:
		return int64(d / time.Second), 's'
	case d < 2*time.Hour:
		return int64(d / time.Minute), 'm'
	case d < 2*day:
		return int64(d / time.Hour), 'h'
	}
	return int64(d / day), 'd'
}

// Count writes how many there are, with a comma between thousands: "2,106".
func Count(n float64) string {
	digits := fmt.Sprintf("%.0f", n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Stamps returns how to write the times of one list: the time of day, with the date if any of them is not of today, and
// with the year if any is of another one. So either all have a date, or none.
func Stamps(now time.Time, all ...time.Time) func(time.Time) string {
	layout := time.TimeOnly
	for _, at := range all {
		at = at.In(now.Location())
		switch {
		case at.Year() != now.Year():
			layout = time.DateTime
		case at.YearDay() != now.YearDay() && layout == time.TimeOnly:
			layout = "Jan 02 15:04:05"
		}
	}
	return func(at time.Time) string { return at.In(now.Location()).Format(layout) }
}
