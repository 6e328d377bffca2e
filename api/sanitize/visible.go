// SPDX-License-Identifier: Apache-2.0

package sanitize

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible returns s with everything escaped that a terminal obeys or does not show, or that shows text in another order
// than it is written in: control characters, with line breaks; marks that change the direction; other invisible
// characters; and what is not valid UTF-8. Whoever writes an object chooses its texts, and must not choose what a
// terminal shows around them. Joiners stay: emoji and some scripts need them.
func Visible(s string) string { return visible(s, "") }

// VisibleLines does the same, and keeps line breaks and tabs.
func VisibleLines(s string) string { return visible(s, "\n\t") }

func visible(s, keep string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return hidden(r, keep) }) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case !hidden(r, keep):
			b.WriteRune(r)
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[i]), 16))
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

func hidden(r rune, keep string) bool {
	const zeroWidthNonJoiner, zeroWidthJoiner = '\u200c', '\u200d'
	if r == ' ' || r == zeroWidthNonJoiner || r == zeroWidthJoiner || strings.ContainsRune(keep, r) {
		return false
	}
	return !unicode.IsGraphic(r) || r == utf8.RuneError || r == '\u2028' || r == '\u2029' || blank(r)
}

// blank reports whether nothing is shown for a letter or a mark: fillers, and the selectors of variants with which text
// can be hidden behind any character. The selectors of the basic plane stay: emoji and some scripts need them.
func blank(r rune) bool {
	const firstSelector, lastSelector = 0xe0100, 0xe01ef
	return unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || firstSelector <= r && r <= lastSelector
}
