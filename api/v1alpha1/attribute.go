package v1alpha1

import "regexp"

var attribute = regexp.MustCompile(`^[a-z0-9]+$`)

// IsAttribute says whether an attribute of a CloudEvent can have this name: it
// consists of lower-case letters and digits (CloudEvents spec.md, Attribute Naming
// Convention).
func IsAttribute(name string) bool { return attribute.MatchString(name) }
