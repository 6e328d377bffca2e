// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Micro is a time as the API server stores it, in UTC and to the microsecond; nil for none.
func Micro(t time.Time) *metav1.MicroTime {
	if t.IsZero() {
		return nil
	}
	return &metav1.MicroTime{Time: t.UTC().Truncate(time.Microsecond)}
}
