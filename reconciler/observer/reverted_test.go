// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// restarter is called when the API server went back in time.
type restarter func()

func (f restarter) Reverted() { f() }

// counter is called with the number of merged updates.
type counter func(int)

func (f counter) Merged(n int) { f(n) }

func TestAPIServerWentBackInTime(t *testing.T) {
	for _, c := range []struct {
		before, now string
		reverted    bool
	}{{"7", "8", false}, {"7", "7", false}, {"8", "7", true}, {"", "7", false}, {"not a number", "7", false}} {
		reverted := false
		o := New(Options{Kind: &plain{}, Now: time.Now, Restarter: restarter(func() { reverted = true })})
		o.Bind(&plain{})
		o.Replace(c.before, types.NamespacedName{Name: "cart"}, Part{Name: "service", Version: c.now, Root: true, Value: 1})
		if reverted != c.reverted {
			t.Errorf("from %q to %q: reverted %v", c.before, c.now, reverted)
		}
	}
}
