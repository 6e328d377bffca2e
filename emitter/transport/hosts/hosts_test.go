// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"strings"
	"testing"
)

func allows(list List, host string) bool {
	h, err := Of(host)
	return err == nil && list.Allows(h)
}

func TestParseAndAllows(t *testing.T) {
	t.Parallel()
	tests := []struct {
		list    string
		allowed []string
		refused []string
	}{
		{"", nil, []string{"", "a.example", "*"}},
		{" , ,", nil, []string{"", "a.example", ","}},
		{
			"hooks.example.com",
			[]string{"hooks.example.com", "HOOKS.example.com", "hooks.example.com."},
			[]string{"example.com", "a.hooks.example.com", "hooks.example.com.evil", "xhooks.example.com", ""},
		},
		{
			"*.Example.com, other.example.",
			[]string{"a.example.com", "a.b.EXAMPLE.com.", "other.example"},
			[]string{"example.com", ".example.com", "aexample.com", "a.example.com.evil", "b.other.example"},
		},
		{
			"10.1.2.3,fd00::1",
			[]string{"10.1.2.3", "::ffff:10.1.2.3", "FD00:0::1", "[fd00::1]"},
			[]string{"10.1.2.4", "0x0a.1.2.3", "10.1.515", "fd00::1%eth0"},
		},
		{
			"*.svc.cluster.local, x.example, GitHub.com, k8s.example",
			[]string{"a.svc.cluster.local", "GITHUB.com."},
			[]string{
				"fd00::5%.svc.cluster.local", "[fd00::5%eth0.svc.cluster.local]", "::ffff:10.0.0.5%x.example", "fd00::1%",
				"gİthub.com", "gıthub.com", "g%C4%B0thub.com", "\u212a8s.example", "a.ſvc.cluster.local", "github。com",
				"10.1.2.5", "10.1.5", "0x5", "a.0x5", "x.example..", "[x.example]", "[x.example", "x.example\x00",
			},
		},
		{"localhost", []string{"LocalHost"}, []string{"localhost.localdomain"}},
	}
	for _, tc := range tests {
		list, err := Parse(tc.list)
		if err != nil {
			t.Errorf("%q: %v", tc.list, err)
			continue
		}
		for _, host := range tc.allowed {
			if !allows(list, host) {
				t.Errorf("%q does not allow %q", tc.list, host)
			}
		}
		for _, host := range tc.refused {
			if allows(list, host) {
				t.Errorf("%q allows %q", tc.list, host)
			}
		}
		if again, err := Parse(string(list)); err != nil || again != list {
			t.Errorf("%q parses as %q, which parses as %q, %v", tc.list, list, again, err)
		}
		if list.Empty() != (len(tc.allowed) == 0) {
			t.Errorf("%q: empty %v", tc.list, list.Empty())
		}
	}
}

// An invalid entry rejects the whole list, so that it never allows more hosts than intended.
func TestInvalidHostsAreRejected(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"*", "*.", "a.*.example", "*example.com", "https://a.example", "a.example:443", "a.example/path", "a b", "ünï.example", "10.1.2.0/24", "**.a", "a..b",
		"fd00::1%eth0", "*.10.1.2.3", "*.fd00::1", "*.5", "\u212a8s.example", strings.Repeat("a.", 127) + "example",
	} {
		list, err := Parse("good.example, " + text)
		if err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), "hooks.example.com") {
			t.Errorf("%q: %v", text, err)
		}
		if allows(list, "good.example") {
			t.Errorf("%q: the valid part of the list is used", text)
		}
	}
}
