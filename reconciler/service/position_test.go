// SPDX-License-Identifier: Apache-2.0

package service

import (
	"testing"
	"time"
)

// An informer advances its resource version before the objects are in its cache.
func TestPositionIsNotAheadOfTheCache(t *testing.T) {
	t.Parallel()
	now, read := time.Unix(0, 0), "5"
	p := newPosition(func() string { return read })
	p.now = func() time.Time { return now }
	p.since = now
	for _, c := range []struct {
		after time.Duration
		read  string
		want  string
	}{
		{0, "6", "5"},
		{arrives - 1, "6", "5"},
		{1, "7", "5"},
		{arrives / 2, "8", "5"},
		{arrives / 2, "8", "7"},
		{time.Hour, "9", "8"},
	} {
		now, read = now.Add(c.after), c.read
		if got := p.get(); got != c.want {
			t.Errorf("after %s: position %s, want %s", c.after, got, c.want)
		}
	}
}
