// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"strings"
	"testing"
)

// No spelling of the paths of the hooks reaches the container, also if the container reads paths as servlets do.
func TestSpellingsOfHooks(t *testing.T) {
	_, a, _, _ := two(t)
	for _, target := range []string{
		"/.stateful;x=1/release", "/x/..;/.stateful/release", "/.stateful;/release", "/;/.stateful/release", `/\.stateful/release`,
		`/x\..\.stateful\release`, "x:.stateful/release", "x:%2F.stateful/release", "http://a/.stateful/release", "/%2e/.stateful/release",
	} {
		got := a.raw(t, "POST "+target+" HTTP/1.1\r\nHost: a\r\nX-Key: "+keyOf(2)+"\r\nContent-Length: 0\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 404") && !strings.HasPrefix(got, "HTTP/1.1 400") {
			line, _, _ := strings.Cut(got, "\r\n")
			t.Errorf("%s: %s", target, line)
		}
	}
}
