// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"slices"
	"strings"
)

// kept are parts by name, in order. Most objects have few, and a process keeps those of all of them: a map takes three times the room.
type kept []Part

func (k kept) find(name string) (int, bool) {
	return slices.BinarySearchFunc(k, name, func(p Part, name string) int { return strings.Compare(p.Name, name) })
}

// get returns the part of that name, or false if there is none.
func (k kept) get(name string) (Part, bool) {
	if i, ok := k.find(name); ok {
		return k[i], true
	}
	return Part{}, false
}

// set adds a part, or replaces the one of its name.
func (k *kept) set(p Part) {
	i, ok := k.find(p.Name)
	if ok {
		(*k)[i] = p
		return
	}
	out := make(kept, 0, len(*k)+1) // no more room than needed
	*k = append(append(append(out, (*k)[:i]...), p), (*k)[i:]...)
}

// fill adds parts of names that it does not have.
func (k *kept) fill(parts []Part) {
	*k = slices.Concat(*k, parts)
	slices.SortFunc(*k, func(a, b Part) int { return strings.Compare(a.Name, b.Name) })
}

// remove removes the part of that name, if there is one.
func (k *kept) remove(name string) {
	if i, ok := k.find(name); ok {
		*k = slices.Clip(slices.Delete(*k, i, i+1))
	}
}

// cool removes volatile parts.
func (k *kept) cool() {
	*k = slices.DeleteFunc(*k, func(p Part) bool { return p.Volatile })
}

// parts returns a copy by name.
func (k kept) parts() Parts {
	out := make(Parts, len(k))
	for _, p := range k {
		out[p.Name] = p
	}
	return out
}
