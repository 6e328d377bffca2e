// SPDX-License-Identifier: Apache-2.0

package transport

import "testing"

func TestClassNames(t *testing.T) {
	t.Parallel()
	for class, want := range map[Class]string{
		Retry: "retry", Acknowledged: "acknowledged", Unauthorized: "unauthorized",
		Redirected: "redirected", Poison: "poison", 9: "class 9",
	} {
		if got := class.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
