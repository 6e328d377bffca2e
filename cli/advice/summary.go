// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/api/plural"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/cli/words"
)

// Summary says in one line why a run is where it is. The figures behind it are for a table; what no table shows is in
// Remarks.
func Summary(run *v1alpha1.GateRun) string {
	j := run.Report
	if j == nil || run.Verdict == verdict.Error || run.Verdict == verdict.Superseded {
		return run.Message
	}
	if run.Verdict == verdict.Running {
		return requests(j)
	}
	i := slices.IndexFunc(j.Metrics, func(m verdict.MetricResult) bool { return !m.DryRun && m.Verdict == run.Verdict })
	switch {
	case (run.Verdict == verdict.Fail || run.Verdict == verdict.Warn) && i >= 0:
		m := j.Metrics[i]
		return fmt.Sprintf("%s: %s of the canary's requests are bad, and %s of the baseline's", m.Name, ratio(m.Canary),
			ratio(m.Baseline))
	case run.Verdict.Passes():
		return "nothing is worse than the gate accepts, after " + ofCanary(j)
	}
	return requests(j)
}

// why is the summary of a run with what else it says, unless it has decided.
func why(run *v1alpha1.GateRun) string {
	if run.Verdict.Passes() || run.Verdict == verdict.Fail {
		return Summary(run)
	}
	return strings.Join(append([]string{Summary(run)}, Remarks(run)...), "; ")
}

// requests says how many requests there are, and how many more are needed.
func requests(j *verdict.Judgement) string {
	text := fmt.Sprintf("%s, %s of the baseline", ofCanary(j), words.Count(float64(j.Baseline.Requests)))
	if j.Canary.Missing > 0 || j.Baseline.Missing > 0 {
		text += fmt.Sprintf("; at least %s and %s more are needed", words.Count(float64(j.Canary.Missing)), words.Count(float64(j.Baseline.Missing)))
	}
	return text
}

func ofCanary(j *verdict.Judgement) string {
	n := j.Canary.Requests
	return words.Count(float64(n)) + plural.Word(n, " request of the canary", " requests of the canary")
}

func ratio(of *float64) string {
	if of == nil {
		return "an unknown part"
	}
	return verdict.Percent(*of)
}

// figures are the reasons of metrics of which a message says no more than the figures beside it.
var figures = []verdict.Reason{
	verdict.Negligible, verdict.NonInferior, verdict.RelativeRegression, verdict.AbsoluteLimit, verdict.PossiblyWorse,
	verdict.Undecided, verdict.InsufficientSample,
}

// counted is the part of a message that has the requests.
var counted = regexp.MustCompile(` requests? of the canary, .* of the baseline`)

// Remarks are the parts of a run's message that no figure beside it shows: all but the requests, and the ratios of
// metrics.
func Remarks(run *v1alpha1.GateRun) []string {
	if run.Report == nil || Summary(run) == run.Message {
		return nil
	}
	message := run.Message
	if run.Baseline != nil {
		message = strings.TrimPrefix(message, fmt.Sprintf("Judging %s against %s: ", run.Canary.Name, run.Baseline.Name))
	}
	return slices.DeleteFunc(strings.Split(message, "; "), func(part string) bool {
		return part == "" || counted.MatchString(part) ||
			strings.HasSuffix(part, " more are needed") ||
			slices.ContainsFunc(run.Report.Metrics, func(m verdict.MetricResult) bool {
				about := strings.HasPrefix(part, m.Name+": ") || strings.HasPrefix(part, m.Name+" (dry run): ")
				// What holds a verdict back is more than figures.
				return about && slices.Contains(figures, m.Reason) && !strings.Contains(part, ", so ") &&
					!strings.Contains(part, " but ")
			})
	})
}
