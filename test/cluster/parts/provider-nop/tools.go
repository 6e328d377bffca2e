// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package nop pins what the cluster builds; it is never compiled itself.
package nop

import (
	_ "github.com/crossplane-contrib/provider-nop/cmd/provider"
)
