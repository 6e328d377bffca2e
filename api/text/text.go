// Package text shortens text for statuses, messages and logs.
//
// Its invariant: Truncate returns as much as the limit allows, as valid UTF-8.
package text

import "strings"

// ellipsis marks text that was cut off.
const ellipsis = "…"

// Truncate returns s if it has at most limit bytes. Otherwise it returns the first limit
// bytes, without a rune that the limit splits, and an ellipsis.
func Truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + ellipsis
}
