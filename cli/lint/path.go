// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"
	"go.yaml.in/yaml/v3"
)

// line returns the line of a field such as spec.metrics[1].limit or metadata.annotations[a.b/c], or of the deepest
// field above it that is there.
func line(root *yaml.Node, field string) int {
	at, found := root, root.Line
	for _, step := range steps(field) {
		for at.Kind == yaml.AliasNode {
			at = at.Alias
		}
		next := (*yaml.Node)(nil)
		switch at.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(at.Content); i += 2 {
				if at.Content[i].Value == step {
					found, next = at.Content[i].Line, at.Content[i+1]
				}
			}
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(step); err == nil && i < len(at.Content) {
				next = at.Content[i]
				found = next.Line
			}
		}
		if next == nil {
			return found
		}
		at = next
	}
	return found
}

// steps divides a path. What is in brackets is one step, whatever is in it.
func steps(field string) []string {
	var out []string
	for field != "" {
		end := strings.IndexAny(field, ".[")
		switch {
		case end < 0:
			return append(out, field)
		case end > 0:
			out = append(out, field[:end])
		}
		if field[end] == '.' {
			field = field[end+1:]
			continue
		}
		inside, rest, _ := strings.Cut(field[end+1:], "]")
		out = append(out, inside)
		field = strings.TrimPrefix(rest, ".")
	}
	return out
}

// nearest returns the known word with the fewest edits, if it is near enough to have been meant.
func nearest(word string, known []string) string {
	if len(known) == 0 || len(word) > 128 {
		return ""
	}
	edits := func(k string) int { return levenshtein.ComputeDistance(strings.ToLower(word), strings.ToLower(k)) }
	best := slices.MinFunc(known, func(a, b string) int { return cmp.Compare(edits(a), edits(b)) })
	if edits(best) > max(2, len(word)/3) {
		return ""
	}
	return best
}

// orNearest ends a sentence about a word that is not known.
func orNearest(word string, known []string) string {
	slices.Sort(known)
	if near := nearest(word, known); near != "" {
		return "did you mean " + near + "?"
	}
	if len(known) > 12 {
		return "remove it"
	}
	return "known are " + strings.Join(known, ", ")
}
