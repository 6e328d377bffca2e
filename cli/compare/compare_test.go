// SPDX-License-Identifier: Apache-2.0

package compare_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/rivals/argo"
	"github.com/knative-cdevents/knative-cdevents/canary/traffic"
	"github.com/knative-cdevents/knative-cdevents/cli/compare"
	"github.com/knative-cdevents/knative-cdevents/cli/timeline"
)

const quarter = 15 * time.Second

// record has windows of 15 s, in each of which the canary has 100 requests, of which some fail, and the baseline 900.
func record(long time.Duration, failed func(at time.Duration) float64) *traffic.Record {
	r := &traffic.Record{Bounds: []float64{.1, .5, 1}}
	for at := time.Duration(0); at < long; at += quarter {
		n := float64(at / quarter % 3) // so that values differ
		r.Add(traffic.Window{
			From: at, To: at + quarter,
			Canary:   traffic.Side{Entry: traffic.Counts{Requests: 100, Errors: failed(at), Seconds: 5 + n/100, Buckets: []float64{100}}},
			Baseline: traffic.Side{Entry: traffic.Counts{Requests: 900, Errors: n, Seconds: 45 + n/10, Buckets: []float64{900}}},
		})
	}
	return r
}

func always(n float64) func(time.Duration) float64 { return func(time.Duration) float64 { return n } }

// say shortens opinions for tests.
func say(all []compare.Opinion) string {
	var out []string
	for _, o := range all {
		text := fmt.Sprintf("%s %.1f", o.Decision, o.Minutes)
		if o.Decision == compare.NoData {
			text = "NoData: " + o.Verdict
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// When each tool decides follows from its published rules: Flagger promotes after ten checks that hold, and rolls back at
// the check after ten that fail; Argo fails with the fourth measurement from minute 10 on.
func TestOpinions(t *testing.T) {
	t.Parallel()
	gap := record(12*time.Minute, always(0))
	gap.Windows = append(gap.Windows[:12:12], gap.Windows[24:]...) // nothing happened from minute 3 to 6
	long := record(12*time.Minute, always(0))
	long.Windows = append(long.Windows[:12:12], long.Windows[24:]...)
	long.Windows[12].From = 3 * time.Minute // it was not read from minute 3 to 6
	unread := record(12*time.Minute, always(0))
	unread.Windows[20].Canary.Lacks = "EntryMetricsUnavailable"
	untimed := record(40*time.Minute, always(0))
	untimed.Windows[0].Canary.Entry.Buckets = nil
	for name, c := range map[string]struct {
		of   *traffic.Record
		want string
	}{
		"good":                    {record(41*time.Minute, always(0)), "Pass 10.0, Pass 40.0, Pass 30.0"},
		"bad":                     {record(41*time.Minute, always(6)), "Fail 11.0, Fail 25.0, Fail 30.0"},
		"good, short":             {record(4*time.Minute, always(0)), "Undecided 4.0, Undecided 4.0, Undecided 4.0"},
		"bad, until the gate":     {record(10*time.Minute, always(6)), "Fail 11.0, Undecided 10.0, Undecided 10.0"},
		"worse, below the limits": {record(31*time.Minute, always(1)), "Pass 10.0, Undecided 31.0, Fail 30.0"},
		"without traffic between": {gap, "Undecided 12.0, Undecided 12.0, Undecided 12.0"},
		"not read for a while":    {long, "NoData: known only as a whole from minute 3.0 to 6.2, Undecided 12.0, NoData: known only as a whole from minute 3.0 to 6.2"},
		"not counted":             {unread, "NoData: EntryMetricsUnavailable, Undecided 12.0, NoData: EntryMetricsUnavailable"},
		"without durations":       {untimed, "NoData: durations are not known, Pass 40.0, NoData: durations are not known"},
		"nothing":                 {&traffic.Record{}, "Undecided 0.0, Undecided 0.0, Undecided 0.0"},
	} {
		got := say(compare.Documented(30 * time.Minute).Opinions(c.of))
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if o := compare.Documented(5 * time.Minute).Opinions(record(11*time.Minute, always(6))); o[0].Requests != 4400 || o[0].Verdict != "Failed" || o[2].Minutes != 5 || o[2].Verdict != "Fail" {
		t.Errorf("%+v", o)
	}
}

// A long run has windows that are too long for the intervals of the others.
func TestLongRun(t *testing.T) {
	t.Parallel()
	r := record(10*time.Hour, always(0))
	if got := say(compare.Documented(30 * time.Minute).Opinions(r)); strings.Count(got, "only as a whole") != 3 {
		t.Error(got)
	}
	rules := compare.Documented(30 * time.Minute)
	rules.Flagger.Interval, rules.Flagger.MetricInterval = 10*time.Minute, 10*time.Minute
	if got := say(rules.Opinions(r)[:1]); got != "Pass 100.0" {
		t.Error(got)
	}
}

// All metrics of a template must succeed, and the first that fails decides.
func TestTemplate(t *testing.T) {
	t.Parallel()
	read := func(query string) *argo.Query {
		q, err := argo.ReadQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	rate := argo.Metric{Name: "rate", Start: time.Minute, Interval: time.Minute, Count: 5, Op: ">=", Than: .95, Value: read(`sum(rate(x{code!~"5.*"}[2m])) / sum(rate(x[2m]))`)}
	last := argo.Metric{Name: "last", Start: 2 * time.Minute, Interval: time.Minute, Count: 2, FailureLimit: 1, Op: ">", Than: .05, Fails: true, Value: read(`sum(irate(x{code=~"5.*"}[2m])) / sum(irate(x[2m]))`)}
	slow := argo.Metric{Name: "slow", Start: time.Minute, Interval: time.Minute, Count: 1, Op: ">", Than: .2, Fails: true, Value: read(`histogram_quantile(0.99, sum(rate(x_bucket[2m])) by (le))`)}
	background := rate
	background.Count = 0
	untimed := record(12*time.Minute, always(0))
	for i := range untimed.Windows {
		untimed.Windows[i].Canary.Entry.Buckets = nil
	}
	for name, c := range map[string]struct {
		of      *traffic.Record
		metrics []argo.Metric
		want    string
	}{
		"all good":            {record(6*time.Minute, always(0)), []argo.Metric{rate, last, slow}, "Pass 5.0"},
		"the slowest decides": {record(4*time.Minute, always(0)), []argo.Metric{rate, last}, "Undecided 4.0"},
		"one fails":           {record(6*time.Minute, always(6)), []argo.Metric{slow, last, rate}, "Fail 1.0"},
		"background":          {record(30*time.Minute, always(0)), []argo.Metric{background}, "Undecided 30.0"},
		"no durations":        {untimed, []argo.Metric{rate, slow}, "NoData: slow: durations are not known"},
	} {
		rules := compare.Documented(30 * time.Minute)
		rules.Argo = c.metrics
		if got := say(rules.Opinions(c.of)[1:2]); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func row(v verdict.Verdict, afterwards timeline.Fate, others ...compare.Decision) compare.Row {
	r := compare.Row{Ours: compare.Opinion{Tool: "gate", Decision: compare.Ours(v), Verdict: string(v)}, Afterwards: afterwards}
	for i, d := range others {
		r.Others = append(r.Others, compare.Opinion{Tool: compare.Tools[i], Decision: d})
	}
	return r
}

func TestSum(t *testing.T) {
	t.Parallel()
	const pass, stop, unsure, none = compare.Promotes, compare.Stops, compare.Undecided, compare.NoData
	c := &compare.Comparison{Rows: []compare.Row{
		row(verdict.Pass, timeline.Kept, stop, pass, unsure),
		row(verdict.Fail, timeline.RolledBack, pass, stop, none),
		row(verdict.Warn, timeline.Incident, stop, pass, pass),
		row(verdict.Inconclusive, timeline.Unknown, pass, unsure, stop),
		row(verdict.Fail, timeline.Unknown, pass, unsure, stop),
	}}
	c.Sum()
	want := []compare.Total{
		{Tool: "gate", Agreed: 4, PassedBad: 1, Undecided: 1},
		{Tool: "Flagger", StoppedKept: 1, PassedBad: 1},
		{Tool: "Argo Rollouts", Agreed: 3, PassedBad: 1, Undecided: 2},
		{Tool: "Kayenta", Agreed: 2, PassedBad: 1, Undecided: 1, NoData: 1},
	}
	if !reflect.DeepEqual(c.Totals, want) {
		t.Errorf("%+v", c.Totals)
	}
	for i, want := range []string{
		"Flagger stopped what was kept", "Flagger let pass what had an incident or was rolled back",
		"gate let pass what had an incident or was rolled back; Flagger disagrees; Argo Rollouts let pass what had an incident or was rolled back; Kayenta let pass what had an incident or was rolled back",
		"", "Flagger disagrees",
	} {
		if got := strings.Join(c.Rows[i].Look, "; "); got != want {
			t.Errorf("row %d: %s, want %s", i, got, want)
		}
	}
}
