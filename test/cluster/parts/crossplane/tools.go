// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package crossplane pins what the cluster builds; it is never compiled itself.
package crossplane

import (
	_ "github.com/crossplane/crossplane/v2/cmd/crossplane"
)
