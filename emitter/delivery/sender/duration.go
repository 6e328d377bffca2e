package sender

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// iso8601 is a duration of weeks, or of days and a time. Years and months are read to be
// refused: how long they last depends on the calendar.
var iso8601 = regexp.MustCompile(`^P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:[.,]\d{1,9})?)S)?)?$`)

// readDuration reads ISO 8601 and checks the bounds; nil leaves the default.
//
// It is stricter than the library that eventing uses, which takes a month for
// 730 h 29 min 6 s, and P3000000000Y for 188 years.
func readDuration(text *string, atLeast, atMost time.Duration, into *time.Duration) error {
	if text == nil {
		return nil
	}
	m := iso8601.FindStringSubmatch(*text)
	if m == nil || *text == "P" || m[5] == "T" {
		return errors.New("it must be a duration as ISO 8601 has it, for example PT30S")
	}
	if m[1] != "" || m[2] != "" {
		return errors.New("years and months have no fixed length; write days or hours, for example P1D or PT12H")
	}
	// Seconds are exact in a float up to far beyond the bound.
	var seconds float64
	for _, part := range []struct {
		digits string
		unit   time.Duration
	}{{m[3], 7 * 24 * time.Hour}, {m[4], 24 * time.Hour}, {m[6], time.Hour}, {m[7], time.Minute}, {withPoint(m[8]), time.Second}} {
		if part.digits == "" {
			continue
		}
		n, err := strconv.ParseFloat(part.digits, 64)
		if err != nil {
			return fmt.Errorf("it is too long; the longest is %s", asISO8601(atMost))
		}
		seconds += n * part.unit.Seconds()
	}
	switch {
	case seconds > atMost.Seconds():
		return fmt.Errorf("it is too long; the longest is %s", asISO8601(atMost))
	case seconds < atLeast.Seconds():
		return fmt.Errorf("it is too short; the shortest is %s", asISO8601(atLeast))
	}
	*into = time.Duration(seconds * float64(time.Second))
	return nil
}

// withPoint takes the comma that ISO 8601 prefers for the point that Go reads.
func withPoint(digits string) string { return strings.Replace(digits, ",", ".", 1) }

// asISO8601 writes one of the bounds.
func asISO8601(d time.Duration) string {
	switch {
	case d >= 24*time.Hour && d%(24*time.Hour) == 0:
		return fmt.Sprintf("P%dD", d/(24*time.Hour))
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("PT%dH", d/time.Hour)
	}
	return fmt.Sprintf("PT%sS", strconv.FormatFloat(d.Seconds(), 'f', -1, 64))
}
