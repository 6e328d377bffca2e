// SPDX-License-Identifier: Apache-2.0

// Package sanitize prepares text that others wrote for events, statuses, messages, logs and terminals.
//
// Its invariants: Truncate returns as much as the limit allows, as valid UTF-8. WithoutCredentials is the only place
// that decides what a credential in a URL is.
package sanitize

import "strings"

// ellipsis marks text that was cut off.
const ellipsis = "…"

// Truncate returns s if it has at most limit bytes. Otherwise it returns the first limit
// bytes, without a rune that the limit splits, and an ellipsis.
func Truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + ellipsis // a new string, which does not keep s in memory
}
