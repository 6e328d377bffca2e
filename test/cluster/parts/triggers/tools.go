// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package triggers pins what the cluster builds; it is never compiled itself.
package triggers

import (
	_ "github.com/tektoncd/triggers/cmd/controller"
	_ "github.com/tektoncd/triggers/cmd/eventlistenersink"
	_ "github.com/tektoncd/triggers/cmd/interceptors"
	_ "github.com/tektoncd/triggers/cmd/webhook"
)
