// SPDX-License-Identifier: Apache-2.0

package judge

// enough reports whether both sides have enough requests for a verdict. A side may receive far fewer
// requests than it handles, so entry has its own count.
func (d *metricData) enough(v analysis, m Metric) bool {
	if !m.countsApart() {
		return v.enough
	}
	if len(d.Tests) == 0 {
		return false
	}
	canary, baseline := d.Tests[0].Canary.N, d.Tests[0].Baseline.N
	return canary > 0 && canary >= v.plan.MinCanary && baseline >= v.plan.MinBaseline
}

// countsApart reports whether a metric counts other requests than those that a side handled.
func (m Metric) countsApart() bool { return m.Kind.kind().traits().apart }
