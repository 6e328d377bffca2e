// SPDX-License-Identifier: Apache-2.0

// Package elections checks the settings of the election of leaders.
package elections

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	electors "k8s.io/client-go/tools/leaderelection"
	"knative.dev/pkg/leaderelection"
)

// Name is that of the ConfigMap for the election of leaders.
const Name = "config-leader-election"

// Check rejects timings with which no replica could start: client-go's NewLeaderElector refuses them.
func Check(c *corev1.ConfigMap) (*leaderelection.Config, error) {
	e, err := leaderelection.NewConfigFromConfigMap(c)
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s: %w", c.Namespace, c.Name, err)
	}
	retry := time.Duration(electors.JitterFactor * float64(e.RetryPeriod))
	if e.RetryPeriod <= 0 || e.RenewDeadline <= retry || e.LeaseDuration <= e.RenewDeadline {
		return nil, fmt.Errorf(
			"ConfigMap %s/%s: lease-duration (%s) must be longer than renew-deadline (%s), and that longer than %g times retry-period (%s)",
			c.Namespace,
			c.Name,
			e.LeaseDuration,
			e.RenewDeadline,
			electors.JitterFactor,
			e.RetryPeriod,
		)
	}
	return e, nil
}
