// SPDX-License-Identifier: Apache-2.0

package sanitize_test

import (
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
)

func TestTruncate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"", 0, ""},
		{"cart", 4, "cart"},
		{"carts", 4, "cart…"},
		{"dé", 3, "dé"},
		{"dép", 3, "dé…"},
		{"dép", 2, "d…"},
		{"日本", 1, "…"},
	} {
		if got := sanitize.Truncate(c.in, c.limit); got != c.want {
			t.Errorf("%q to %d bytes: got %q, want %q", c.in, c.limit, got, c.want)
		}
	}
}
