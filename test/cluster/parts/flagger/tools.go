// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package flagger pins what "make compare" compares with; it is never compiled itself.
package flagger

import _ "github.com/fluxcd/flagger/cmd/flagger"
