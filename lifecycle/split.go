// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Share is the traffic share of one Revision.
type Share struct {
	Revision string `json:"revision"`
	// Percent is 1 to 100, summed over all targets that name the Revision.
	Percent int64 `json:"percent"`
}

// Split is how traffic is divided between Revisions: largest share first, then by name. There is one value for each
// split, so slices.Equal compares two.
type Split []Share

// NewSplit sums traffic targets by Revision. It drops targets without a share (tags only) or without a Revision.
func NewSplit(targets []Share) Split {
	var out Split
	for _, t := range targets {
		if t.Percent <= 0 || t.Revision == "" {
			continue
		}
		if i := out.index(t.Revision); i >= 0 {
			out[i].Percent += t.Percent
			continue
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Percent, a.Percent), cmp.Compare(a.Revision, b.Revision))
	})
	return out
}

// SplitOf returns the split with these percentages by Revision.
func SplitOf(percent map[string]int64) Split {
	targets := make([]Share, 0, len(percent))
	for revision, n := range percent {
		targets = append(targets, Share{Revision: revision, Percent: n})
	}
	return NewSplit(targets)
}

// Percentages returns the percentage of each Revision with traffic, by name.
func (s Split) Percentages() map[string]int64 {
	out := make(map[string]int64, len(s))
	for _, share := range s {
		out[share.Revision] = share.Percent
	}
	return out
}

// Percent is what a Revision gets; 0 if it gets nothing.
func (s Split) Percent(revision string) int64 {
	if i := s.index(revision); i >= 0 {
		return s[i].Percent
	}
	return 0
}

// String says who gets which part of the traffic. It is empty if nobody does.
func (s Split) String() string {
	parts := make([]string, 0, len(s))
	for _, share := range s {
		parts = append(parts, fmt.Sprintf("%d %% %s", share.Percent, share.Revision))
	}
	return strings.Join(parts, ", ")
}

// whole is the Revision that gets all of the traffic; empty if several do.
func (s Split) whole() string {
	if len(s) == 1 {
		return s[0].Revision
	}
	return ""
}

func (s Split) index(revision string) int {
	return slices.IndexFunc(s, func(share Share) bool { return share.Revision == revision })
}
