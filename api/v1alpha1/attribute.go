// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "regexp"

var attribute = regexp.MustCompile(`^[a-z0-9]+$`)

// IsAttribute reports whether a CloudEvents attribute can have this name: lower-case letters and
// digits (CloudEvents spec.md, Attribute Naming Convention).
func IsAttribute(name string) bool { return attribute.MatchString(name) }
