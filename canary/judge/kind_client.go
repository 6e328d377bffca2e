// SPDX-License-Identifier: Apache-2.0

package judge

import "slices"

// clientErrors counts requests that were answered with a 4xx code, where they enter. Most of them are
// the clients' own fault and vary with the clients, so more is tolerated and it takes a small part of
// Alpha only. But a canary that answers 404 or 401 to everybody is broken.
type clientErrors struct{ plain }

// clientPart of Alpha, compared with what another metric takes.
const clientPart = 0.1

func (clientErrors) traits() traits {
	return traits{
		source: Codes, byRequests: true, apart: true, codes: true, failures: true,
		part: clientPart, grossOdds: grossClientOdds,
	}
}

func (clientErrors) requests(_ Metric, a Arm) float64 { return a.answered(anyCode) }

func (clientErrors) read(m Metric, a Arm, _ []*test) ([]tally, string) {
	if a.NoCodes {
		return make([]tally, 1), "EntryMetricsUnavailable"
	}
	return counted(a.answered(anyCode), a.answered(m.isClientError), "")
}

func (clientErrors) differed(p past, _ float64) difference {
	return difference{p.Client, p.WorstClient}
}

func (clientErrors) worst(w worst, _ float64) tally { return w.Client }

// answered returns the requests that were answered with some of the known codes.
func (a Arm) answered(some func(code string) bool) float64 {
	n := 0.0
	for code, times := range a.Codes {
		if anyCode(code) && some(code) {
			n += times
		}
	}
	return n
}

// anyCode reports whether a code is known: three digits, as package mapping reads them.
func anyCode(code string) bool { return len(code) == 3 }

func (m Metric) isClientError(code string) bool {
	return code[0] == '4' && !slices.Contains(m.IgnoreCodes, code)
}

// isRedirect excludes 304: it is the same answer as 200, which the client has already.
func isRedirect(code string) bool { return code[0] == '3' && code != "304" }

func isSuccess(code string) bool { return code[0] == '2' || code[0] == '3' }
