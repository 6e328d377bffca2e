// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"time"
)

// worlds are all of them, in the order of the table.
func worlds() []world {
	return slices.Concat(
		plain(), clustered(), sharded(), hanging(), clientErrors(), exposed(), shared(), open(), late(), clocks(), cold(), killed(), unlike(),
	)
}

// plain worlds have errors that are independent, at a rate that does not change.
func plain() []world {
	const group = "errors"
	long := lasts(3 * time.Hour)
	return []world{
		{group: group, name: "none on both sides", gate: long},
		{group: group, name: "0.1 % on both sides", behaves: alike(failing(.001)), gate: long},
		{group: group, name: "1 % on both sides", behaves: alike(failing(.01)), gate: long},
		{group: group, name: "5 % on both sides", behaves: alike(failing(.05)), gate: long},
		{group: group, name: "1 % on both sides, 33 a second, 30 min", rps: 33, behaves: alike(failing(.01))},
		{group: group, name: "0.1 → 5 %", bad: true, behaves: apart(failing(.001), failing(.05)), gate: long},
		{group: group, name: "1 → 5 %", bad: true, behaves: apart(failing(.01), failing(.05)), gate: long},
		{group: group, name: "1 → 2 %", bad: true, behaves: apart(failing(.01), failing(.02)), gate: long},
	}
}

// clustered worlds have errors that come in clusters, alike on both sides.
func clustered() []world {
	const group, rps = "clustered errors", 2000. / 60
	few := func(all, canarys int) [2]int { return [2]int{all - canarys, canarys} }
	return []world{
		{group: group, name: "each of 10 pods fails 20 % for 5 % of the time", rps: rps, pods: few(10, 1), behaves: episodes(.01, .2, .05, 120)},
		{group: group, name: "each of 20 pods fails 10 % for 2 % of the time", rps: rps, pods: few(20, 2), behaves: episodes(.01, .1, .02, 120)},
		{group: group, name: "each of 10 pods fails 3 % for 20 % of the time", rps: rps, pods: few(10, 1), behaves: episodes(.01, .03, .2, 120)},
		{group: group, name: "the first of these, for 10 min on average", rps: rps, pods: few(10, 1), behaves: episodes(.01, .2, .05, 600)},
		{group: group, name: "clients try again five times in six", rps: rps, retries: 5. / 6, behaves: alike(failing(.01))},
		{group: group, name: "clients try again every other time", rps: rps, retries: .5, behaves: alike(failing(.01))},
		{group: group, name: "clients fail 20 times in a row", rps: rps, inRow: 20, behaves: alike(failing(.01))},
		{group: group, name: "clients fail 5 times in a row", rps: rps, inRow: 5, behaves: alike(failing(.01))},
		{group: group, name: "short outages, the canary read 5 s of 15 later", rps: rps, late: 5, behaves: outages},
		{group: group, name: "each of 2 pods fails 20 % for 5 % of the time", rps: rps, pods: few(2, 1), percent: 50, behaves: episodes(.01, .2, .05, 120)},
		{group: group, name: "each of 3 pods fails 20 % for 5 % of the time", rps: rps, pods: few(3, 1), percent: 33, behaves: episodes(.01, .2, .05, 120)},
		{group: group, name: "each of 5 pods fails 20 % for 5 % of the time", rps: rps, pods: few(5, 1), percent: 20, behaves: episodes(.01, .2, .05, 120)},
	}
}
