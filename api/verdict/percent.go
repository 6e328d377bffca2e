// SPDX-License-Identifier: Apache-2.0

package verdict

import "strconv"

// Percent writes a share from 0 to 1 for people: with three digits, and never as 100 % if something is missing from it.
// Messages, the plugin and its page write shares alike, so that the same figure looks the same everywhere.
func Percent(share float64) string {
	const almost = .9995
	if share < 1 && share >= almost {
		return "over 99.9 %"
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(100*share, 'g', 3, 64), 64)
	if err != nil {
		return "unknown" // FormatFloat writes what ParseFloat reads
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64) + " %"
}
