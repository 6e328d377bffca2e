// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package registry pins what the cluster builds; it is never compiled itself.
package registry

import (
	_ "github.com/distribution/distribution/v3/cmd/registry"
)
