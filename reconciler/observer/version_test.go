// SPDX-License-Identifier: Apache-2.0

package observer

import "testing"

func TestNewest(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"", "", ""},
		{"5", "", "5"},
		{"", "5", "5"},
		{"0", "5", "5"},
		{"5", "0", "5"},
		{"9", "10", "10"},
		{"10", "9", "10"},
	} {
		if got := Newest(c[0], c[1]); got != c[2] {
			t.Errorf("Newest(%q, %q) = %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
