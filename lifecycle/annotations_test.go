// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"
)

func TestHugeAnnotationsAreTruncated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, out string }{
		"short":  {"abc", "abc"},
		"long":   {strings.Repeat("x", 240<<10), strings.Repeat("x", maxAnnotation)},
		"list":   {strings.Repeat("CI=0123456789,", 20<<10), strings.TrimSuffix(strings.Repeat("CI=0123456789,", maxAnnotation/14), ",")},
		"runes":  {strings.Repeat("é", maxAnnotation), strings.Repeat("é", maxAnnotation/2)},
		"broken": {"x" + strings.Repeat("é", maxAnnotation), "x" + strings.Repeat("é", maxAnnotation/2-1)},
	} {
		if got := clip(c.in, maxAnnotation); got != c.out {
			t.Errorf("%s: %d bytes, want %d", name, len(got), len(c.out))
		}
	}
}
