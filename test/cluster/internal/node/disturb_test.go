// SPDX-License-Identifier: Apache-2.0

package node

import "testing"

func TestRulesThatCutAPodOff(t *testing.T) {
	t.Parallel()
	got, err := cutRules("10.244.0.5", []string{"10.244.0.6", "10.244.0.7"})
	const want = `table ip knative-cdevents-cut
delete table ip knative-cdevents-cut
table ip knative-cdevents-cut {
	chain forward {
		type filter hook forward priority filter; policy accept;
		ip saddr 10.244.0.5 ip daddr { 10.244.0.6, 10.244.0.7 } accept
		ip daddr 10.244.0.5 ip saddr { 10.244.0.6, 10.244.0.7 } accept
		ip saddr 10.244.0.5 drop
		ip daddr 10.244.0.5 drop
	}
}
`
	if err != nil || got != want {
		t.Errorf("%s\n%v", got, err)
	}
	for _, wrong := range [][]string{{"web-0"}, {"10.244.0.5", "fd00::1"}, {"10.244.0.5 drop"}} {
		if got, err := cutRules(wrong[0], wrong[1:]); err == nil {
			t.Errorf("%v: %s", wrong, got)
		}
	}
}
