package lifecycle

import (
	"maps"
	"slices"
)

// maxLabels bounds what is remembered of an object's labels, in bytes of JSON. Kubernetes
// bounds each key (317) and value (63), but not how many there are.
const maxLabels = 64 << 10

// firstOut is the key under which remembered labels hold the key of the first one that was
// left out. No label of an object has an empty key.
const firstOut = ""

// Remembered are the labels that are remembered of an object. Of too many, these are the
// first in the order of their keys, besides some that are always kept.
func Remembered(all map[string]string, always ...string) map[string]string {
	size := 0
	for k, v := range all {
		size += weighLabel(k, v)
	}
	if size <= maxLabels {
		return all
	}
	out := map[string]string{}
	size = weighLabel(firstOut, slices.MaxFunc(slices.Collect(maps.Keys(all)), func(a, b string) int { return len(a) - len(b) }))
	for _, k := range always {
		if v, ok := all[k]; ok {
			out[k] = v
			size += weighLabel(k, v)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if _, ok := out[k]; ok {
			continue
		}
		if size += weighLabel(k, all[k]); size > maxLabels {
			out[firstOut] = k
			break
		}
		out[k] = all[k]
	}
	return out
}

// LeftOut says that a label of this key may have been left out of the remembered ones: it
// is not known whether the object has it.
func LeftOut(remembered map[string]string, key string) bool {
	first, some := remembered[firstOut]
	_, kept := remembered[key]
	return some && !kept && key >= first
}

// weighLabel is the size of a label as JSON. Keys and values have no characters that are
// escaped.
func weighLabel(key, value string) int { return len(`"":"",`) + len(key) + len(value) }
