// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package traefik pins what the cluster builds; it is never compiled itself.
package traefik

import (
	_ "github.com/traefik/traefik/v3/cmd/traefik"
)
