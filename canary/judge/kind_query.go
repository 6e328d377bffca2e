// SPDX-License-Identifier: Apache-2.0

package judge

// query counts what a query of the operator's counts.
type query struct{ plain }

func (query) traits() traits { return traits{source: Queries, apart: true} }

func (query) requests(m Metric, a Arm) float64 { return a.Queried[m.Name].Total }

func (query) read(m Metric, a Arm, _ []*test) ([]tally, string) {
	q, asked := a.Queried[m.Name]
	if !asked {
		return make([]tally, 1), "it was not asked"
	}
	return []tally{whole(q.Total, q.Bad)}, q.Unknown
}
