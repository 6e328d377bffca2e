// SPDX-License-Identifier: Apache-2.0

package sim

import "testing"

// The watch of the ledger shows what a process writes before the write is answered, and what comes after it: what
// another leader writes, and that a user has deleted the entry.
func TestAnswersThatTheWatchOvertakes(t *testing.T) {
	var total tally
	for seed := uint64(1); seed <= 24; seed++ {
		vandals := seed%2 == 0
		w := history(seed, size, chaos{
			overtakes: true, vandals: vandals, leaders: seed%3 == 0, unelected: seed%3 == 0, crashes: !vandals && seed%5 == 0,
			outages: seed%4 == 0, errors: !vandals && seed%7 == 0, sources: 1 + int(seed%2),
		})
		v := check(t, seed, w)
		total.add(tally{events: v.events, doubles: w.doubles, writes: w.store.Writes(), crashes: w.crashes})
		w.end()
	}
	t.Logf("%d events, %d sent twice with the same bytes, %d crashes, %.2f writes per event", total.events, total.doubles, total.crashes,
		float64(total.writes)/float64(total.events))
}
