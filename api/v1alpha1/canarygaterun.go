package v1alpha1

// Public is the run as people are told of it.
func (r *GateRun) Public() *GateRun {
	if r == nil {
		return nil
	}
	out := r.DeepCopy()
	out.Spec, out.Evidence = nil, nil
	return out
}
