// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"net/url"
	"strings"
	"testing"
)

// What is dialled in another form than it is written is no host, and the error says how to
// write it.
func TestHostsThatAreDialledAsAnother(t *testing.T) {
	t.Parallel()
	for raw, says := range map[string]string{
		"http://[fd00::5%25.svc.cluster.local]:8080/": `an address with a zone; use the address without "%.svc.cluster.local"`,
		"https://[::ffff:10.0.0.5%25.example.com]/":   "zone",
		"https://gİthub.com/":                         `looked up, "xn--github-qyd.com`,
		"https://g%C4%B0thub.com/":                    "xn--",
		"https://bücher.example/":                     `"xn--bcher-kva.example"`,
		"https://１０.0.0.1/":                           `"10.0.0.1"`,
		"https://\u2024.example/":                     "use a name in ASCII",
		"https://10.1.515/":                           "neither a name in DNS nor an address",
		"https://0x7f000001/":                         "neither",
		"https://a.example,b.example/":                "neither",
		"https://*.example/":                          "neither",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if h, err := Of(u.Hostname()); err == nil || !strings.Contains(err.Error(), says) || h.String() != "" {
			t.Errorf("%s: got %q, %v, want %q", raw, h, err, says)
		}
	}
}

func TestHostsInTheirForm(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Hooks.Example.com.": "hooks.example.com", "under_score.example": "under_score.example", "xn--bcher-kva.example": "xn--bcher-kva.example",
		"10.1.2.3": "10.1.2.3", "::FFFF:10.1.2.3": "10.1.2.3", "[FD00:0::1]": "fd00::1", "1a.2b": "1a.2b",
	} {
		if h, err := Of(text); err != nil || h.String() != want {
			t.Errorf("%s: got %q, %v, want %s", text, h, err, want)
		}
	}
	if h, err := Of("a.svc"); err != nil || !h.Below("svc") || h.Below("a.svc") || h.Below("vc") || h.Below("") {
		t.Errorf("%q: %v", h, err)
	}
}
