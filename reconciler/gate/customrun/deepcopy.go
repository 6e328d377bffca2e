// SPDX-License-Identifier: Apache-2.0

package customrun

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopy copies a status.
func (s *Status) DeepCopy() *Status {
	out := &Status{
		Status: *s.Status.DeepCopy(), StartTime: s.StartTime.DeepCopy(), CompletionTime: s.CompletionTime.DeepCopy(),
		Results: slices.Clone(s.Results),
	}
	if s.ExtraFields != nil {
		out.ExtraFields = &runtime.RawExtension{Raw: slices.Clone(s.ExtraFields.Raw)}
	}
	for _, r := range s.RetriesStatus {
		out.RetriesStatus = append(out.RetriesStatus, *r.DeepCopy())
	}
	return out
}
