// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// A pod without its sidecar does not answer, and the message says how it gets one.
func TestPodWithoutItsSidecar(t *testing.T) {
	t.Parallel()
	for _, err := range []error{ErrNoRoute, errors.New("connection refused")} {
		if got := because(err, v1alpha1.RuntimeSidecar); !strings.Contains(got, "stateful-sidecar") || !strings.Contains(got, "knative-cdevents.dev/sidecar=enabled") {
			t.Errorf("%v: %s", err, got)
		}
	}
	if got := because(nil, v1alpha1.RuntimeSidecar); got != "" {
		t.Error(got)
	}
}
