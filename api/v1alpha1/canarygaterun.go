// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Public returns the part of the run that users see.
func (r *GateRun) Public() *GateRun {
	if r == nil {
		return nil
	}
	out := r.DeepCopy()
	out.Spec, out.WaitingSince, out.PlacedSince, out.Evidence = nil, nil, nil, nil
	return out
}
