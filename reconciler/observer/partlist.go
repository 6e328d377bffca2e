// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"slices"
	"strings"
)

// partList holds parts by name, in order. Most objects have few, and a process keeps those of all of them: a map
// takes three times the room.
type partList []Part

func (l partList) find(name string) (int, bool) {
	return slices.BinarySearchFunc(l, name, func(p Part, name string) int { return strings.Compare(p.Name, name) })
}

// get returns the part of that name, or false if there is none.
func (l partList) get(name string) (Part, bool) {
	if i, ok := l.find(name); ok {
		return l[i], true
	}
	return Part{}, false
}

// set adds a part, or replaces the one of its name.
func (l *partList) set(p Part) {
	i, ok := l.find(p.Name)
	if ok {
		(*l)[i] = p
		return
	}
	out := make(partList, 0, len(*l)+1) // no more room than needed
	*l = append(append(append(out, (*l)[:i]...), p), (*l)[i:]...)
}

// fill adds parts of names that it does not have.
func (l *partList) fill(parts []Part) {
	*l = slices.Concat(*l, parts)
	slices.SortFunc(*l, func(a, b Part) int { return strings.Compare(a.Name, b.Name) })
}

// remove removes the part of that name, if there is one.
func (l *partList) remove(name string) {
	if i, ok := l.find(name); ok {
		*l = slices.Clip(slices.Delete(*l, i, i+1))
	}
}

// dropVolatile drops volatile parts.
func (l *partList) dropVolatile() {
	*l = slices.DeleteFunc(*l, func(p Part) bool { return p.Volatile })
}

// parts returns a copy by name.
func (l partList) parts() Parts {
	out := make(Parts, len(l))
	for _, p := range l {
		out[p.Name] = p
	}
	return out
}
