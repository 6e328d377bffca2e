// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestLeading shows that the parts of replicas that lead for different objects add up to 1.
func TestLeading(t *testing.T) {
	t.Parallel()
	even := func(key types.NamespacedName) bool { return key.Name[len(key.Name)-1]%2 == 0 }
	a, b := leading(even), leading(func(key types.NamespacedName) bool { return !even(key) })
	if a <= 0 || b <= 0 || a+b != 1 {
		t.Errorf("%v and %v", a, b)
	}
	if none, all := leading(func(types.NamespacedName) bool { return false }), leading(nil); none != 0 || all != 1 {
		t.Errorf("none: %v, without election: %v", none, all)
	}
}
