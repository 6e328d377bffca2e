// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// Limits on a gate.
const (
	minGateInterval = 5 * time.Second
	maxGateInterval = time.Hour
	maxGateTimeout  = 7 * 24 * time.Hour
	maxGateMetrics  = 10
	maxGateSamples  = 1_000_000_000
	maxGateShards   = 100_000
	maxGateWeight   = 1000
	maxGateRatio    = 1000
	maxGateOdds     = 100
	maxGateHistory  = 100
	maxGateScore    = 100
)

// Validate returns what is wrong with the gate, where, and what is allowed.
func (g *CanaryGate) Validate(ctx context.Context) *apis.FieldError {
	return g.Spec.Validate(ctx).ViaField("spec").Also(unreadFields(g.Unread))
}

// Validate returns what is wrong with the spec, where, and what is allowed. Missing fields count as
// their defaults.
func (s *CanaryGateSpec) Validate(ctx context.Context) *apis.FieldError {
	errs := s.objects().Also(s.template())
	if s.HistoryLimit != nil {
		errs = errs.Also(whole("historyLimit", int64(*s.HistoryLimit), 0, maxGateHistory))
	}
	return errs.Also(s.validate(ctx))
}

// template checks the reference alone: the template may come later.
func (s *CanaryGateSpec) template() *apis.FieldError {
	if s.TemplateRef == nil {
		return nil
	}
	if s.TemplateRef.Name == "" {
		err := apis.ErrMissingField("templateRef.name")
		err.Details = "it must be the name of a ClusterCanaryGateTemplate"
		return err
	}
	wrong := validation.IsDNS1123Subdomain(s.TemplateRef.Name)
	if len(wrong) == 0 {
		return nil
	}
	return apis.ErrInvalidValue(s.TemplateRef.Name, "templateRef.name", strings.Join(wrong, "; "))
}

// validate checks the policy of a gate or of a template. Missing fields count as their defaults.
func (p *GatePolicy) validate(ctx context.Context) *apis.FieldError {
	filled := p.DeepCopy()
	filled.SetDefaults(ctx)
	return filled.Schedule.validate().ViaField("schedule").
		Also(filled.Minimum.validate().ViaField("minimum")).
		Also(filled.metrics()).
		Also(filled.Exposure.validate().ViaField("exposure")).
		Also(oneOf("withoutPast", filled.WithoutPast, verdict.Pass, verdict.Warn)).
		Also(filled.Limits.validate().ViaField("limits")).
		Also(filled.Statistics.validate().ViaField("statistics")).
		Also(filled.Score.validate().ViaField("score")).
		Also(filled.verdicts())
}

// objects checks that names are valid in Knative.
func (s *CanaryGateSpec) objects() (errs *apis.FieldError) {
	if s.Service == "" {
		err := apis.ErrMissingField("service")
		err.Details = "it must be the name of a Knative Service in the gate's namespace"
		errs = errs.Also(err)
	} else {
		errs = errs.Also(named("service", s.Service))
	}
	if s.Canary != "" {
		errs = errs.Also(named("canary", s.Canary))
	}
	if s.Baseline != "" {
		errs = errs.Also(named("baseline", s.Baseline))
	}
	if s.Canary != "" && s.Canary == s.Baseline {
		errs = errs.Also(&apis.FieldError{
			Message: fmt.Sprintf("canary and baseline are both %q", s.Canary), Paths: []string{"canary", "baseline"},
			Details: "they must be two different Revisions; if you omit one, it is chosen by its traffic",
		})
	}
	return errs
}

func named(field, value string) *apis.FieldError {
	wrong := validation.IsDNS1035Label(value)
	if len(wrong) == 0 {
		return nil
	}
	return apis.ErrInvalidValue(value, field, strings.Join(wrong, "; "))
}

func (s *GateSchedule) validate() *apis.FieldError {
	warmup, interval, least, timeout := s.Warmup.Duration, s.Interval.Duration, s.MinDuration.Duration, s.Timeout.Duration
	errs := within("warmup", warmup, 0, maxGateTimeout).
		Also(within("interval", interval, minGateInterval, maxGateInterval)).
		Also(within("minDuration", least, 0, maxGateTimeout)).
		Also(within("timeout", timeout, minGateInterval, maxGateTimeout))
	if errs != nil {
		return errs
	}
	if warmup+least >= timeout {
		errs = errs.Also(apis.ErrInvalidValue(
			timeout,
			"timeout",
			fmt.Sprintf(
				"it must be longer than warmup (%s) and minDuration (%s) together; otherwise, no run can pass",
				warmup,
				least,
			),
		))
	}
	if warmup+interval >= timeout {
		errs = errs.Also(apis.ErrInvalidValue(
			interval,
			"interval",
			fmt.Sprintf(
				"warmup (%s) and one interval together must be shorter than timeout (%s); otherwise, nothing is judged",
				warmup,
				timeout,
			),
		))
	}
	return errs
}

func within(field string, value, least, most time.Duration) *apis.FieldError {
	if value >= least && value <= most {
		return nil
	}
	return apis.ErrInvalidValue(value, field, fmt.Sprintf("it must be a duration from %s to %s", least, most))
}

func (m *GateMinimum) validate() *apis.FieldError {
	return whole("canaryRequests", *m.CanaryRequests, 1, maxGateSamples).
		Also(whole("baselineRequests", *m.BaselineRequests, 1, maxGateSamples)).
		Also(whole("shards", *m.Shards, 1, maxGateShards))
}

func whole(field string, value, least, most int64) *apis.FieldError {
	if value >= least && value <= most {
		return nil
	}
	return apis.ErrInvalidValue(value, field, fmt.Sprintf("it must be a whole number from %d to %d", least, most))
}

func (p *GatePolicy) metrics() (errs *apis.FieldError) {
	if n := len(p.Metrics); n > maxGateMetrics {
		return apis.ErrInvalidValue(fmt.Sprintf("%d metrics", n), "metrics",
			fmt.Sprintf("at most %d are allowed, because each metric makes it harder to prove the others", maxGateMetrics))
	}
	decides := false
	first := map[string]int{}
	for i := range p.Metrics {
		m := &p.Metrics[i]
		errs = errs.Also(m.validate().ViaFieldIndex("metrics", i))
		if before, taken := first[m.Name]; taken {
			errs = errs.Also(apis.ErrInvalidValue(
				m.Name,
				"name",
				fmt.Sprintf(
					"metrics[%d] has the same name; it must be unique in the gate, and defaults to the type",
					before,
				),
			).ViaFieldIndex("metrics", i))
		} else {
			first[m.Name] = i
		}
		decides = decides || (*m.Critical && !m.DryRun)
	}
	if !decides {
		errs = errs.Also(&apis.FieldError{
			Message: "no metric decides",
			Paths:   []string{"metrics"},
			Details: "at least one metric must be critical and not dryRun; otherwise, nothing can fail. To try out the whole gate, set the dryRun of its spec",
		})
	}
	return errs
}

func (p *GatePolicy) verdicts() (errs *apis.FieldError) {
	possible := []verdict.Verdict{verdict.Warn, verdict.Fail, verdict.Error, verdict.Inconclusive}
	if !slices.Contains(p.FailOn, verdict.Fail) {
		err := apis.ErrInvalidValue(verdict.List(p.FailOn), "failOn")
		err.Details = "it must contain Fail; otherwise, the gate stops nothing. If that is what you want, set dryRun"
		errs = errs.Also(err)
	}
	for i, v := range p.FailOn {
		if !slices.Contains(possible, v) || slices.Index(p.FailOn, v) < i {
			err := apis.ErrInvalidArrayValue(v, "failOn", i)
			err.Details = "it must contain only " + verdict.List(possible) + ", each at most once"
			errs = errs.Also(err)
		}
	}
	return errs
}
