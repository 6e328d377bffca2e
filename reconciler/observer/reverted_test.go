// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestAPIServerWentBackInTime(t *testing.T) {
	for _, c := range []struct {
		before, now string
		reverted    bool
	}{{"7", "8", false}, {"7", "7", false}, {"8", "7", true}, {"", "7", false}, {"not a number", "7", false}} {
		reverted := false
		o := New(Options{Kind: &plain{}, Now: time.Now, Reverted: func() { reverted = true }})
		o.Bind(&plain{})
		o.Updated(c.before, types.NamespacedName{Name: "cart"}, Part{Name: "service", Version: c.now, Root: true, Value: 1})
		if reverted != c.reverted {
			t.Errorf("from %q to %q: reverted %v", c.before, c.now, reverted)
		}
	}
}
