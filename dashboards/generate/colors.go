// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/knative-cdevents/knative-cdevents/dashboards"
)

// revisionColors are the colors of series that a Revision's name begins, or that it ends after an arrow. The name's
// last character decides, so a Revision has one color in all panels, whatever its series are called, and consecutive
// Revisions differ. Grafana's own choice by name gives "cart-00002" and "cart-00002 required" different colors.
func revisionColors() []dashboards.Color {
	// In the order of the last digits; letters, of Revisions that users name, follow in turn.
	names := []string{
		"super-light-purple", "blue", "orange", "green", "purple", "yellow", "red", "super-light-blue", "dark-orange",
		"super-light-green",
	}
	const letters = "abcdefghijklmnopqrstuvwxyz"
	out := make([]dashboards.Color, 0, len(names))
	for i, name := range names {
		last := fmt.Sprint(i)
		for letter := i; letter < len(letters); letter += len(names) {
			last += letters[letter : letter+1]
		}
		out = append(out, dashboards.Color{Names: `^(?:\S+ → )?\S*[` + last + `](?: (?!→)|$)`, Color: name})
	}
	return out
}
