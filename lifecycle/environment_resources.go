// SPDX-License-Identifier: Apache-2.0

package lifecycle

import "slices"

// ResourceRef names an object that an environment consists of.
type ResourceRef struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// Fate is what becomes of the resource with its object, as last read.
	Fate Fate `json:"fate,omitempty"`
}

// Same reports whether both name the same object.
func (r ResourceRef) Same(other ResourceRef) bool {
	r.Fate = other.Fate
	return r == other
}

// Fate is what becomes of a resource when the object that stands for it is deleted. It is empty if it was never read.
type Fate string

// The fates.
const (
	// FateDeleted: the resource is deleted.
	FateDeleted Fate = "Deleted"
	// FateOrphaned: the resource stays, because a policy says so.
	FateOrphaned Fate = "Orphaned"
	// FateNone: the object stands for nothing else, or its provider only looks at what it stands for.
	FateNone Fate = "None"
)

// MaxResources bounds the resources that are remembered. The deletion of an environment with more of them is
// announced when the first ones are gone.
const MaxResources = 256

// Orphaned returns the resources that outlive an environment, and whether these are all that it consists of.
func Orphaned(resources []ResourceRef) (orphaned []ResourceRef, all bool) {
	is := func(fate Fate) func(ResourceRef) bool { return func(r ResourceRef) bool { return r.Fate == fate } }
	orphaned = slices.DeleteFunc(slices.Clone(resources), func(r ResourceRef) bool { return r.Fate != FateOrphaned })
	return orphaned, len(orphaned) > 0 && !slices.ContainsFunc(resources, is(FateDeleted)) &&
		!slices.ContainsFunc(resources, is(""))
}
