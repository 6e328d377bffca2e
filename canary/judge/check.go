// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"errors"
	"fmt"
	"slices"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// Check returns what makes the plan unusable, and what would be right.
func (p Plan) Check() error {
	if !(p.Alpha > 0 && p.Alpha < 1) || !(p.Beta > 0 && p.Beta < 1) {
		return fmt.Errorf("alpha is %v and beta is %v: both must be between 0 and 1", p.Alpha, p.Beta)
	}
	if p.Deadline <= 0 || p.Warmup < 0 || p.Warmup >= p.Deadline {
		return fmt.Errorf("the warm-up is %v and the deadline %v: there must be time between them", p.Warmup, p.Deadline)
	}
	known := map[string]bool{}
	for _, m := range p.Metrics {
		if known[m.Name] {
			return fmt.Errorf("two metrics have the name %q: names must be unique", m.Name)
		}
		known[m.Name] = true
		if err := m.check(); err != nil {
			return fmt.Errorf("metric %q: %w", m.Name, err)
		}
	}
	return nil
}

func (m Metric) check() error {
	switch {
	case !slices.Contains(Kinds(), m.Kind):
		return fmt.Errorf("kind %q is not one of %s", m.Kind, Kinds())
	case !(m.MaxOddsRatio > 1 && m.MaxOddsRatio <= 1e6):
		return fmt.Errorf("the tolerated odds ratio is %v: it must be above 1, and 1e6 at most", m.MaxOddsRatio)
	case !(m.Limit >= 0 && m.Limit < 1):
		return fmt.Errorf("the limit is %v: it must be a ratio below 1, or 0 for none", m.Limit)
	case !(m.Negligible >= 0 && m.Negligible < 1):
		return fmt.Errorf("negligible is %v: it must be a ratio below 1, or 0 for none", m.Negligible)
	case !(m.Weight > 0 && m.Weight <= 1e6):
		return fmt.Errorf("the weight is %v: it must be above 0, and 1e6 at most", m.Weight)
	}
	return nil
}

// Check returns why a stored run cannot continue with a plan: another writer edited it, or another
// release used other odds.
func (r *Run) Check(p Plan) error {
	if r.Last.Verdict != verdict.Running {
		return fmt.Errorf("its verdict is %q: evidence is kept only until there is one", r.Last.Verdict)
	}
	for name, s := range r.Evidence.Shards.Counts {
		if s == nil {
			return fmt.Errorf("shard %q has no counts", name)
		}
	}
	if r.Evidence.Analyses < 0 {
		return fmt.Errorf("the shards have %d interim analyses", r.Evidence.Analyses)
	}
	if err := r.Evidence.Open.check(); err != nil {
		return fmt.Errorf("open requests: %w", err)
	}
	if err := r.Evidence.Restarted.check(); err != nil {
		return fmt.Errorf("restarts: %w", err)
	}
	if err := r.Evidence.Worst.check(); err != nil {
		return fmt.Errorf("the baseline's past: %w", err)
	}
	for _, m := range p.Metrics {
		d := r.Evidence.Metrics[m.Name]
		if d == nil {
			continue
		}
		if !m.Kind.kind().traits().everywhere && len(d.Tests) > 1 || len(d.Tests) > maxBounds {
			return fmt.Errorf("metric %q has %d tests", m.Name, len(d.Tests))
		}
		if len(d.Tests) == 0 && (d.Same || d.Crossed || d.Warned || d.Failed != "") {
			return fmt.Errorf("metric %q was decided, and no test says so", m.Name)
		}
		if d.Young != nil && !d.Young.Odds.fits(newOdds(m.MaxOddsRatio)) {
			return fmt.Errorf("metric %q: the odds of young pods are not those that are asked for", m.Name)
		}
		if err := d.Outage.check(); err != nil {
			return fmt.Errorf("metric %q: %w", m.Name, err)
		}
		if err := d.Answers.check(m); err != nil {
			return fmt.Errorf("metric %q: %w", m.Name, err)
		}
		for _, t := range d.Tests {
			if err := t.check(newOdds(m.MaxOddsRatio)); err != nil {
				return fmt.Errorf("metric %q: %w", m.Name, err)
			}
		}
	}
	return nil
}

func (o *openings) check() error {
	if o.Analyses < 0 || o.Analyses > len(openAnalyses) {
		return fmt.Errorf("they have %d interim analyses", o.Analyses)
	}
	if o.Failed && len(o.Readings) == 0 {
		return errors.New("too many were open, and no reading says so")
	}
	for _, r := range o.Readings {
		if min(r.Open.Canary, r.Open.Baseline, r.Begun.Canary, r.Begun.Baseline) < 0 {
			return errors.New("a reading has less than none")
		}
	}
	return nil
}

// check compares a test with a new one of the same odds.
func (t *test) check(wanted *odds) error {
	switch {
	case t == nil || t.Odds == nil:
		return errors.New("a test has no odds")
	case len(t.Course.Stretches) > mostHalves || t.Course.Each < 0 || t.Course.Long < 0:
		return errors.New("its course is not one that is kept")
	case !t.Odds.fits(wanted):
		return errors.New("its odds are not those that are asked for")
	case len(t.Clusters.Bets) != 0 && len(t.Clusters.Bets) != len(failSteps) ||
		len(t.Clusters.Plain) != len(t.Clusters.Bets)/len(failSteps)*len(stakes) ||
		len(t.Clusters.Windows) > mostWindows || len(t.Clusters.Pods) > mostPods:
		return errors.New("its bets are not those that are made")
	case len(t.Marks) > lateStarts || len(t.Latest.Until) > latest:
		return fmt.Errorf("it has %d late starts and %d minutes", len(t.Marks), len(t.Latest.Until))
	case len(t.Alone.Bets) != 0 && len(t.Alone.Bets) != len(stakes) || len(t.Alone.Windows) > mostWindows:
		return errors.New("its bets on the limit are not those that are made")
	}
	return nil
}

// fits reports whether the odds are of the ratios that are wanted.
func (o *odds) fits(wanted *odds) bool {
	return o != nil && len(o.Logs) == len(o.Ratios) && slices.Equal(o.Ratios, wanted.Ratios)
}
