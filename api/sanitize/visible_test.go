// SPDX-License-Identifier: Apache-2.0

package sanitize

import "testing"

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"":                               "",
		"plain, Ægir שלום 💡 é\u0301":     "plain, Ægir שלום 💡 é\u0301",
		"👩\u200d💻 می\u200cخواهم":         "👩\u200d💻 می\u200cخواهم",
		"\x1b]0;owned\x07\x1b[2J\rwell":  `\x1b]0;owned\a\x1b[2J\rwell`,
		"two\nlines\tand \x00\x7f":       `two\nlines\tand \x00\x7f`,
		"\u009b31m\u0085":                `\u009b31m\u0085`,
		"admin\u202egnp.exe\u2066\u200f": `admin\u202egnp.exe\u2066\u200f`,
		"a\u200bb\ufeff\u00ad\U000e0041": `a\u200bb\ufeff\u00ad\U000e0041`,
		"a\u3164b\u115f\uffa0\u034f":     `a\u3164b\u115f\uffa0\u034f`,
		"a\U000e0101b, ❤\ufe0f":          `a\U000e0101b, ❤` + "\ufe0f",
		"a\u2028b":                       `a\u2028b`,
		"a\xff\x9b1mb":                   `a\xff\x9b1mb`,
		"\ufffd":                         `\ufffd`,
		`\x1b`:                           `\x1b`,
	} {
		if got := Visible(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	if got := VisibleLines("a\n\tb\r\x1b"); got != "a\n\tb\\r\\x1b" {
		t.Errorf("%q", got)
	}
}
