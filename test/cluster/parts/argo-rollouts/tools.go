// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package argorollouts pins what "make compare-rules" compares with; it is never compiled itself.
package argorollouts

import _ "github.com/argoproj/argo-rollouts/cmd/rollouts-controller"
