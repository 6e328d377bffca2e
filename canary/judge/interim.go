// SPDX-License-Identifier: Apache-2.0

package judge

// maxAnalyses is the number of interim analyses of the shards. They are at 1/16, 1/8,
// 1/4, 1/2 and the whole of the time between the warm-up and the deadline: the plan
// fixes them, not the data, so no run can repeat an analysis until it likes the result.
const maxAnalyses = 5

// due returns how many interim analyses of the shards are due.
func (p Plan) due(elapsed int64) int {
	n := 0
	for j := range maxAnalyses {
		if elapsed >= int64(p.Warmup)+int64(p.Deadline-p.Warmup)>>(maxAnalyses-1-j) {
			n++
		}
	}
	return n
}

// spent returns the fraction of Alpha, and of Beta, that so many analyses may spend: the fraction of
// the time that has passed. A skipped analysis leaves its part to the next.
func spent(analyses int) float64 {
	if analyses == 0 {
		return 0
	}
	return 1 / float64(int(1)<<(maxAnalyses-min(analyses, maxAnalyses)))
}

// lastAnalysis is what the last analysis may spend, if none was skipped.
const lastAnalysis = 0.5
