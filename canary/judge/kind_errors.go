// SPDX-License-Identifier: Apache-2.0

package judge

// handledErrors counts errors where requests are handled.
type handledErrors struct{ plain }

func (handledErrors) traits() traits { return traits{source: Outcomes, failures: true} }

func (handledErrors) read(_ Metric, a Arm, _ []*test) ([]tally, string) {
	return counted(a.Finished, a.Errors, a.OutcomesUnknown)
}

func (handledErrors) untold(a Arm) float64 { return a.Untold }

func (handledErrors) column(Metric) (column, bool) { return errorColumn, true }
func (handledErrors) differed(p past, _ float64) difference {
	return difference{p.Errors, p.WorstErrors}
}

func (handledErrors) worst(w worst, _ float64) tally { return w.Errors }

// entryErrors counts them where requests enter.
type entryErrors struct{ plain }

func (entryErrors) traits() traits {
	return traits{source: Entry, byRequests: true, apart: true, repeats: Errors, failures: true}
}

func (entryErrors) requests(_ Metric, a Arm) float64 { return a.Entered }

func (entryErrors) read(_ Metric, a Arm, _ []*test) ([]tally, string) {
	return counted(a.Entered, a.EntryErrors, a.EntryUnknown)
}

func (entryErrors) untold(a Arm) float64 { return a.EntryUntold }

func (entryErrors) differed(p past, _ float64) difference { return difference{p.Entry, p.WorstEntry} }

func (entryErrors) worst(w worst, _ float64) tally { return w.Entry }

// counted returns the tally of a metric with one test. A side without requests lacks nothing.
func counted(n, bad float64, lack string) ([]tally, string) {
	if n <= 0 {
		return make([]tally, 1), ""
	}
	return []tally{whole(n, bad)}, lack
}
