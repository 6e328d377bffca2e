// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package jaeger pins what receives the traces of tests; it is never compiled itself.
package jaeger

import (
	_ "github.com/jaegertracing/jaeger/cmd/all-in-one"
)
