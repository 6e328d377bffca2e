// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestMemoryIsReturnedAtRest(t *testing.T) {
	t.Parallel()
	const mebibyte = 1 << 20
	tr := trimming{}
	for i, c := range []struct {
		allocated uint64
		want      bool
	}{
		{500 * mebibyte, false}, // the start
		{700 * mebibyte, false}, // still busy
		{701 * mebibyte, true},
		{702 * mebibyte, false}, // hardly anything to return
		{706 * mebibyte, true},
		{800 * mebibyte, false},
		{801 * mebibyte, true},
	} {
		if got := tr.due(c.allocated); got != c.want {
			t.Errorf("at look %d: %v", i, got)
		}
	}
	if before := allocated(); before == 0 {
		t.Error("nothing was allocated")
	}
}
