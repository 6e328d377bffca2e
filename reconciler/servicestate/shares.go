// SPDX-License-Identifier: Apache-2.0

package servicestate

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Shares returns the effective traffic split of a Service, or none if it is not known.
func (v *View) Shares(service types.NamespacedName) []lifecycle.Share {
	split := v.Split(service)
	if split == nil {
		return nil
	}
	var out []lifecycle.Share
	for _, r := range split.Revisions {
		if r.Percent > 0 {
			out = append(out, lifecycle.Share{Revision: r.Name, Percent: r.Percent})
		}
	}
	return out
}
