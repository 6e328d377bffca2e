// SPDX-License-Identifier: Apache-2.0

package elections

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// With such timings no replica could start.
func TestRefusedLeaderElectionTimings(t *testing.T) {
	for want, data := range map[string]map[string]string{
		"":                                {"lease-duration": "15s", "renew-deadline": "10s", "retry-period": "2s"},
		"lease-duration (5s)":             {"lease-duration": "5s", "renew-deadline": "10s", "retry-period": "2s"},
		"renew-deadline (10s)":            {"lease-duration": "15s", "renew-deadline": "10s", "retry-period": "9s"},
		"retry-period (0s)":               {"lease-duration": "15s", "renew-deadline": "10s", "retry-period": "0s"},
		"knative-cdevents/elections: fai": {"lease-duration": "long"},
	} {
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "knative-cdevents", Name: "elections"}, Data: data}
		_, err := Check(c)
		if want == "" && err == nil {
			continue
		}
		if err == nil || want == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
