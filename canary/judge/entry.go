package judge

// requests of a side that a metric is about.
func (a Arm) requests(m Metric) float64 {
	if m.Kind == EntryErrors {
		return a.Entered
	}
	return a.Finished
}

// enough requests on both sides for a verdict. What enters at a side may be much less
// than what it handles, so that there it is counted by itself.
func (d *metricData) enough(v view, m Metric) bool {
	if m.Kind != EntryErrors {
		return v.enough
	}
	if len(d.Tests) == 0 {
		return false
	}
	canary, baseline := d.Tests[0].Canary.N, d.Tests[0].Baseline.N
	return canary > 0 && canary >= v.plan.MinCanary && baseline >= v.plan.MinBaseline
}
