// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"slices"
)

// kind is what one MetricKind means. Nothing else in this package asks which kind a metric has, so a
// further one is a type in a file of its own and a line in kinds.
type kind interface {
	traits() traits
	// requests returns the requests of a side that the metric is about.
	requests(m Metric, a Arm) float64
	// tests returns the tests of a run that begins with this window.
	tests(m Metric, w Window) []*test
	// read returns what a side did, per test, or why that is unknown.
	read(m Metric, a Arm, tests []*test) (did []tally, lack string)
	// untold returns how many of the requests that read counts, or would, are not known to be bad or good.
	untold(a Arm) float64
	// column returns which of the columns of a shard counts the bad requests; false if none does.
	column(m Metric) (column, bool)
	// worst returns the baseline's worst stretch before the split; without requests if unknown.
	worst(w worst, bound float64) tally
	// differed returns how pods differed before the split.
	differed(p past, bound float64) difference
}

// traits tell how a kind of metric is compared.
type traits struct {
	// source has the counts.
	source Source
	// byRequests means that requests are compared one by one in a sharded Service too.
	byRequests bool
	// apart means that it counts other requests than those that a side handled.
	apart bool
	// unlimited means that it has no absolute limit.
	unlimited bool
	// everywhere means one test per histogram bound.
	everywhere bool
	// part is how much of Alpha it takes, compared with other metrics; 0 means as much as they.
	part float64
	// grossOdds is the multiple of the worst odds of the past that is gross; 0 means the usual one.
	grossOdds float64
	// codes means that it compares status codes.
	codes bool
	// failures means that bad requests failed, so that an outage shows in them.
	failures bool
	// repeats is the kind that counts the same in a Service without shards.
	repeats MetricKind
}

// Source is where the counts of a metric come from.
type Source string

// The sources.
const (
	// Outcomes of the requests that a side handled, or their Durations.
	Outcomes  Source = "Outcomes"
	Durations Source = "Durations"
	// Entry counts where requests entered.
	Entry Source = "Entry"
	// Codes are the status codes where requests entered.
	Codes Source = "Codes"
	// Queries are the operator's.
	Queries Source = "Queries"
)

// kinds holds all of them, in the order in which they are listed to users.
var kinds = []struct {
	name MetricKind
	is   kind
}{
	{Errors, handledErrors{}},
	{EntryErrors, entryErrors{}},
	{ClientErrors, clientErrors{}},
	{Slow, slow{}},
	{SlowerAnywhere, slowerAnywhere{}},
	{Query, query{}},
}

// Kinds returns all kinds of metrics, in a fixed order.
func Kinds() []MetricKind {
	all := make([]MetricKind, len(kinds))
	for i := range kinds {
		all[i] = kinds[i].name
	}
	return all
}

// kind returns what the metric's kind means. One that does not exist counts handled errors; Plan.Check
// refuses it.
func (k MetricKind) kind() kind {
	if i := slices.Index(Kinds(), k); i >= 0 {
		return kinds[i].is
	}
	return handledErrors{}
}

// part returns how much of Alpha such a metric takes, compared with others.
func (k MetricKind) part() float64 { return cmp.Or(k.kind().traits().part, 1) }

// Source tells where the counts of such a metric come from.
func (k MetricKind) Source() Source { return k.kind().traits().source }

// Limited reports whether such a metric may have a limit.
func (k MetricKind) Limited() bool { return !k.kind().traits().unlimited }

// Repeats returns the kind that counts the same in a Service without shards; empty if there is none.
func (k MetricKind) Repeats() MetricKind { return k.kind().traits().repeats }

func (t traits) gross() float64 { return cmp.Or(t.grossOdds, grossOdds) }

// plain has what most kinds have in common: one test, and nothing by shard.
type plain struct{}

func (plain) requests(_ Metric, a Arm) float64  { return a.Finished }
func (plain) tests(m Metric, _ Window) []*test  { return []*test{newTest(m, m.Threshold)} }
func (plain) untold(Arm) float64                { return 0 }
func (plain) column(Metric) (column, bool)      { return 0, false }
func (plain) differed(past, float64) difference { return difference{1, 1} }
func (plain) worst(worst, float64) tally        { return tally{} }
func newTest(m Metric, bound float64) *test {
	return &test{Bound: bound, Odds: newOdds(m.MaxOddsRatio)}
}
