// SPDX-License-Identifier: Apache-2.0

package main

// aims compares the results with our aims. Missing one is not a failure: the numbers depend on the machine.
func (r report) aims(p *page) {
	p.head("Aims")
	p.row("aim", "measured", "")
	p.line("|---|---|---|")
	r.scrapeAims(p)
	r.latencyAim(p)
	r.throughputAims(p)
	r.lossAim(p)
	r.drainAim(p)
	r.memoryAim(p)
	r.idleAims(p)
	r.serverlessAims(p)
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "**missed**"
}
