// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// parity leads for the objects whose name ends with such a digit.
type parity struct{ even, odd bool }

func (p parity) IsLeaderFor(key types.NamespacedName) bool {
	if key.Name[len(key.Name)-1]%2 == 0 {
		return p.even
	}
	return p.odd
}

var always = parity{even: true, odd: true}

// TestLeading shows that the parts of replicas that lead for different objects add up to 1.
func TestLeading(t *testing.T) {
	t.Parallel()
	a, b := leading(parity{even: true}), leading(parity{odd: true})
	if a <= 0 || b <= 0 || a+b != 1 {
		t.Errorf("%v and %v", a, b)
	}
	if none, all := leading(parity{}), leading(nil); none != 0 || all != 1 {
		t.Errorf("none: %v, without election: %v", none, all)
	}
}
