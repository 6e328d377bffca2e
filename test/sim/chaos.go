// SPDX-License-Identifier: Apache-2.0

package sim

// chaos selects what may fail in a history.
type chaos struct {
	// crashes: a process dies between any two side effects.
	crashes bool
	// leaders: two processes lead at once, and processes lose and gain the lead.
	leaders bool
	// outages: sinks reject everything for a while, and some of their responses are lost.
	outages bool
	// downtime: no process runs for long periods.
	downtime bool
	// errors: responses of the API server do not say whether the request succeeded.
	errors bool
	// clocks: the clocks of processes are wrong by up to an hour.
	clocks bool
	// restores: the storage is restored from a backup.
	restores bool
	// vandals: users delete entries of the ledger while a controller can restore them.
	vandals bool
	// unelected: two processes lead for everything, all the time. It goes with leaders.
	unelected bool
	// suspends: a process stops between a write and what it would send next, and continues much later, when another has
	// led. It goes with leaders.
	suspends bool
	// overtakes: the watch of the ledger shows changes while a request is under way, before its answer.
	overtakes bool
	// sources is the number of sources.
	sources int
}

// chaosOf spreads failures over seeds, so that each occurs alone and in combination with
// each other. With restores, clocks are right: a backup repeats everything but time.
func chaosOf(seed uint64) chaos {
	with := chaos{
		crashes: seed%5 != 0, leaders: seed%3 == 0, outages: seed%2 == 0, downtime: seed%7 == 0, errors: seed%11 < 3,
		clocks: seed%4 == 1, restores: seed%13 == 0, sources: 1,
	}
	if seed%6 == 5 {
		with.sources = 2
	}
	with.clocks = with.clocks && !with.restores
	with.vandals = seed%5 == 0 && !with.leaders && !with.errors && !with.restores
	return with
}

// disturb injects a failure now and then.
func (w *world) disturb() {
	if w.with.crashes && w.dieIn == 0 && w.rng.IntN(40) == 0 {
		w.dieIn = 1 + w.rng.IntN(12)
	}
	if w.with.outages && w.rng.IntN(30) == 0 {
		s := w.sources[w.rng.IntN(len(w.sources))].UID
		w.down[s], w.flaky = !w.down[s], true
	}
	if w.with.restores {
		switch w.rng.IntN(120) {
		case 0:
			w.save()
		case 1:
			w.restore()
		}
	}
	if w.with.vandals && !w.with.leaders && len(w.processes) == 1 && w.rng.IntN(60) == 0 {
		w.processes[0].vandalise()
	}
	limit := 1
	if w.with.leaders {
		limit = 2
	}
	down := w.with.downtime && w.rng.IntN(10) != 0
	if len(w.processes) < limit && !down && (len(w.processes) == 0 || w.rng.IntN(30) == 0) {
		w.processes = append(w.processes, w.start())
	}
	if n := len(w.processes); w.with.leaders && !w.with.unelected && n > 0 {
		p := w.processes[w.rng.IntN(n)]
		switch w.rng.IntN(60) {
		case 0, 1:
			if n > 1 {
				w.kill(p)
			}
		case 2:
			p.demote()
		case 3, 4, 5:
			p.lead()
		}
	}
}
