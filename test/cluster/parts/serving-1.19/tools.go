// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package serving pins what the cluster builds; it is never compiled itself.
package serving

import (
	_ "knative.dev/caching/config"
	_ "knative.dev/networking/config"
	_ "knative.dev/serving/cmd/activator"
	_ "knative.dev/serving/cmd/autoscaler"
	_ "knative.dev/serving/cmd/controller"
	_ "knative.dev/serving/cmd/queue"
	_ "knative.dev/serving/cmd/webhook"
)
