// SPDX-License-Identifier: Apache-2.0

package kit_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

func TestWait(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		ask  func(int) error
		want string // in the error; empty means no error
	}{
		"at once":        {func(int) error { return nil }, ""},
		"the third time": {func(n int) error { return map[bool]error{true: nil, false: kit.NotYet("%d", n)}[n == 3] }, ""},
		"an error":       {func(int) error { return broken }, "the thing: broken"},
		"never":          {func(int) error { return kit.NotYet("no pod") }, "no pod"},
		"interrupted by the deadline": {func(n int) error {
			if n == 1 {
				return kit.NotYet("no pod")
			}
			time.Sleep(time.Second)
			return context.DeadlineExceeded
		}, "no pod"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := 0
				err := kit.Wait(t.Context(), 900*time.Millisecond, "the thing", func(context.Context) error { n++; return c.ask(n) })
				if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
			})
		})
	}
}

func TestRevisionName(t *testing.T) {
	if got := kit.RevisionName("shop", 2); got != "shop-00002" {
		t.Errorf("got %s", got)
	}
}
