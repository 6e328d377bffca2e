package observer

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestAnAPIServerThatWentBackInTime(t *testing.T) {
	for _, c := range []struct {
		before, now string
		told        bool
	}{{"7", "8", false}, {"7", "7", false}, {"8", "7", true}, {"", "7", false}, {"no number", "7", false}} {
		told := false
		o := New(Options{Kind: &plain{}, Now: time.Now, Reverted: func() { told = true }})
		o.Bind(&plain{})
		o.Updated(c.before, types.NamespacedName{Name: "cart"}, Part{Name: "service", Version: c.now, Root: true, Value: 1})
		if told != c.told {
			t.Errorf("from %q to %q: told %v", c.before, c.now, told)
		}
	}
}
