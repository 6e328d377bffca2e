// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"slices"
	"time"

	"github.com/knative-cdevents/knative-cdevents/cli/timeline"
)

// Row is what everybody said of one finished run.
type Row struct {
	Namespace string    `json:"namespace"`
	Service   string    `json:"service"`
	Gate      string    `json:"gate,omitempty"`
	Run       string    `json:"run"`
	Canary    string    `json:"canary"`
	Baseline  string    `json:"baseline"`
	Start     time.Time `json:"start"`
	End       time.Time `json:"end"`
	// Sharded: requests may be handled elsewhere than where they enter.
	Sharded bool     `json:"sharded,omitempty"`
	DryRun  bool     `json:"dryRun,omitempty"`
	Reasons []string `json:"reasons,omitempty"`
	// Ours is the gate's own opinion.
	Ours   Opinion   `json:"ours"`
	Others []Opinion `json:"others"`
	// Afterwards is what became of the canary, and Since when.
	Afterwards timeline.Fate `json:"afterwards"`
	Since      *time.Time    `json:"since,omitempty"`
	// Look is why the row is worth a look.
	Look []string `json:"look,omitempty"`
}

// bad reports whether the release turned out to be bad.
func (r *Row) bad() bool {
	return r.Afterwards == timeline.RolledBack || r.Afterwards == timeline.Incident
}

// wrong says how a decision and what happened afterwards do not go together; empty if they do.
func (r *Row) wrong(d Decision) string {
	switch {
	case d == Stops && r.Afterwards == timeline.Kept:
		return "stopped what was kept"
	case d == Promotes && r.bad():
		return "let pass what had an incident or was rolled back"
	}
	return ""
}

// look fills in Look.
func (r *Row) look() {
	for _, o := range append([]Opinion{r.Ours}, r.Others...) {
		if why := r.wrong(o.Decision); why != "" {
			r.Look = append(r.Look, o.Tool+" "+why)
		} else if o.Decision.Decided() && r.Ours.Decision.Decided() && o.Decision != r.Ours.Decision {
			r.Look = append(r.Look, o.Tool+" disagrees")
		}
	}
}

// Total is how often a tool was right, as far as that is known.
type Total struct {
	Tool string `json:"tool"`
	// Agreed counts runs in which it decided as the gate did. The gate agrees with itself wherever it decided.
	Agreed int `json:"agreed"`
	// StoppedKept and PassedBad count decisions that what happened afterwards contradicts.
	StoppedKept int `json:"stoppedKept"`
	PassedBad   int `json:"passedBad"`
	Undecided   int `json:"undecided"`
	NoData      int `json:"noData"`
}

// Comparison is what all tools said of the runs, newest first.
type Comparison struct {
	Since  time.Time `json:"since"`
	Rows   []Row     `json:"rows"`
	Totals []Total   `json:"totals"`
	// Rules say whose rules are applied, Limits what the comparison cannot say, and Notes what could not be read.
	Rules  string   `json:"rules"`
	Limits []string `json:"limits"`
	Notes  []string `json:"notes,omitempty"`
}

// Sum completes a comparison.
func (c *Comparison) Sum() {
	slices.SortStableFunc(c.Rows, func(a, b Row) int { return b.End.Compare(a.End) })
	c.Totals = make([]Total, 1+len(Tools))
	for i := range c.Rows {
		r := &c.Rows[i]
		r.look()
		for j, o := range append([]Opinion{r.Ours}, r.Others...) {
			t := &c.Totals[j]
			t.Tool = o.Tool
			switch wrong := r.wrong(o.Decision); {
			case o.Decision == Undecided:
				t.Undecided++
			case o.Decision == NoData:
				t.NoData++
			case wrong != "" && o.Decision == Stops:
				t.StoppedKept++
			case wrong != "":
				t.PassedBad++
			}
			if o.Decision.Decided() && o.Decision == r.Ours.Decision {
				t.Agreed++
			}
		}
	}
	c.Limits = []string{
		"a run ends with the gate's verdict: a tool that had not decided by then is undecided, and nothing is assumed about what came later",
		"each tool would have shifted traffic at its own pace; here, all of them see what the canary really had",
		"of a sharded Service (*), the others judge where requests enter, as they would; the gate also judges where they are handled",
		"if a gate is no dry run, its Fail may be the reason for a rollback",
	}
}
