// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package coredns pins what the cluster builds; it is never compiled itself.
package coredns

import (
	_ "github.com/coredns/coredns"
)
