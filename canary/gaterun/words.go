package gaterun

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/knative-cdevents/knative-cdevents/canary/judge"
)

// maxMessage bounds what is said to a person, in bytes.
const maxMessage = 1024

func (t *Trial) say(format string, args ...any) { t.Run.Message = clip(fmt.Sprintf(format, args...)) }

// progress says what is awaited, and how much of it is missing.
func (t *Trial) progress(j judge.Judgement) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Judging %s against %s: ", t.Run.Canary.Name, t.Run.Baseline.Name)
	if j.Message != "" {
		b.WriteString(j.Message)
	} else {
		b.WriteString(numbers(j))
	}
	if t.evidence != nil && t.evidence.Lacking != "" {
		b.WriteString("; the handled requests are not known for certain: " + t.evidence.Lacking)
		if t.evidence.Seen != "" {
			b.WriteString(" (" + t.evidence.Seen + ")")
		}
	}
	if t.evidence != nil && t.evidence.LostPods > 0 {
		fmt.Fprintf(&b, "; the last requests of %d pods are not known, because the pods were gone before they were scraped again", t.evidence.LostPods)
	}
	return b.String()
}

// numbers are what there is, and what is missing at least.
func numbers(j judge.Judgement) string {
	say := fmt.Sprintf("%s and %s requests", number(j.Canary.Requests), number(j.Baseline.Requests))
	var missing []string
	for _, n := range []struct {
		count float64
		what  string
	}{
		{j.Canary.Missing, "requests of the canary"},
		{j.Baseline.Missing, "requests of the baseline"},
		{float64(j.Canary.ShardsMissing), "shards of the canary"},
		{float64(j.Baseline.ShardsMissing), "shards of the baseline"},
	} {
		if n.count > 0 {
			missing = append(missing, number(n.count)+" "+n.what)
		}
	}
	if len(missing) > 0 {
		say += "; still needed, at least: " + strings.Join(missing, ", ")
	}
	return say
}

func number(n float64) string { return fmt.Sprintf("%.0f", math.Ceil(n)) }

func reasons(j judge.Judgement) []string {
	var out []string
	for _, r := range j.Reasons {
		out = append(out, string(r))
	}
	return out
}

func distinct(all []string) []string {
	var out []string
	for _, s := range all {
		if s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func clip(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	s = s[:maxMessage]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s
}
