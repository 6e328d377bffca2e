// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"testing"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

func BenchmarkRender(b *testing.B) {
	p := profile(Version05)
	var tr lifecycle.Transition
	for _, t := range story() {
		if t.Type == lifecycle.Upgraded {
			tr = t
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Render(p, cart, tr); err != nil {
			b.Fatal(err)
		}
	}
}
