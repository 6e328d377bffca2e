// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"maps"
	"slices"
)

// maxLabels bounds the labels kept of an object, in bytes of JSON. Kubernetes bounds each key (317)
// and value (63), but not their number.
const maxLabels = 64 << 10

// firstDropped is the entry of the kept labels that holds the key of the first dropped one. No label of
// an object has an empty key.
const firstDropped = ""

// BoundLabels returns the labels to keep of an object. If there are too many, these are the first in
// key order, plus those that are always kept.
func BoundLabels(all map[string]string, always ...string) map[string]string {
	size := 0
	for k, v := range all {
		size += labelSize(k, v)
	}
	if size <= maxLabels {
		return all
	}
	out := map[string]string{}
	size = labelSize(
		firstDropped,
		slices.MaxFunc(slices.Collect(maps.Keys(all)), func(a, b string) int { return len(a) - len(b) }),
	)
	for _, k := range always {
		if v, ok := all[k]; ok {
			out[k] = v
			size += labelSize(k, v)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if _, ok := out[k]; ok {
			continue
		}
		if size += labelSize(k, all[k]); size > maxLabels {
			out[firstDropped] = k
			break
		}
		out[k] = all[k]
	}
	return out
}

// LabelDropped reports whether a label with this key may have been dropped: then it is unknown whether
// the object has it.
func LabelDropped(remembered map[string]string, key string) bool {
	first, some := remembered[firstDropped]
	_, kept := remembered[key]
	return some && !kept && key >= first
}

// labelSize is the size of a label as JSON. Keys and values need no escaping.
func labelSize(key, value string) int { return len(`"":"",`) + len(key) + len(value) }
