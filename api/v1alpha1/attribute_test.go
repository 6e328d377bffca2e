// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "testing"

func TestIsAttribute(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]bool{
		"type": true, "knativeerrorcode": true, "a1": true, "1": true,
		"": false, "Type": false, "data-ref": false, "data_ref": false, "datä": false, "a b": false, "a\n": false,
	} {
		if IsAttribute(name) != is {
			t.Errorf("%q: %v", name, !is)
		}
	}
}
