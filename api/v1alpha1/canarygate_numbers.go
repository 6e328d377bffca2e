// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

func (m *GateMetric) validate() (errs *apis.FieldError) {
	kind, known := m.kind()
	if !known {
		return apis.ErrInvalidValue(m.Type, "type", "it must be one of "+strings.Join(GateMetricTypes(), ", "))
	}
	if wrong := validation.IsValidLabelValue(m.Name); len(wrong) > 0 {
		errs = errs.Also(apis.ErrInvalidValue(m.Name, "name", strings.Join(wrong, "; ")))
	}
	return errs.Also(m.query(kind)).
		Also(m.threshold(kind)).
		Also(m.codes(kind)).
		Also(number("maxOddsRatio", *m.MaxOddsRatio, above(1), upTo(maxGateOdds))).
		Also(number("negligible", *m.Negligible, above(0), below(1))).
		Also(m.limit(kind)).
		Also(number("weight", *m.Weight, above(0), upTo(maxGateWeight)))
}

func (m *GateMetric) query(kind gateMetricType) *apis.FieldError {
	switch {
	case kind.query && m.Query == "":
		err := apis.ErrMissingField("query")
		err.Details = "it must be the name of a query in ConfigMap config-canary; ask the operator which ones there are"
		return err
	case kind.query:
		if wrong := validation.IsDNS1123Label(m.Query); len(wrong) > 0 {
			return apis.ErrInvalidValue(m.Query, "query",
				"it must be the name of a query in ConfigMap config-canary, not a query: "+strings.Join(wrong, "; "))
		}
	case m.Query != "":
		return m.disallowed("query", func(t gateMetricType) bool { return t.query })
	}
	return nil
}

// disallowed says which types have a field that this one does not have.
func (m *GateMetric) disallowed(field string, allowed func(gateMetricType) bool) *apis.FieldError {
	err := apis.ErrDisallowedFields(field)
	err.Details = fmt.Sprintf("only metrics of type %s have the field %s; the type of this one is %s",
		strings.Join(namesOf(allowed), " or "), field, m.Type)
	return err
}

func (m *GateMetric) threshold(kind gateMetricType) *apis.FieldError {
	switch {
	case m.Threshold == nil:
		return nil
	case kind.threshold == 0:
		return m.disallowed("threshold", func(t gateMetricType) bool { return t.threshold > 0 })
	case !slices.Contains(GateThresholds(), m.Threshold.Duration):
		return apis.ErrInvalidValue(
			m.Threshold.Duration,
			"threshold",
			fmt.Sprintf("it must be a bound of the histogram in which durations are counted: one of %v", GateThresholds()),
		)
	}
	return nil
}

func (m *GateMetric) codes(kind gateMetricType) (errs *apis.FieldError) {
	if len(m.IgnoreCodes) > 0 && !kind.codes {
		return m.disallowed("ignoreCodes", func(t gateMetricType) bool { return t.codes })
	}
	for i, code := range m.IgnoreCodes {
		if code < 400 || code > 499 || slices.Index(m.IgnoreCodes, code) < i {
			err := apis.ErrInvalidArrayValue(code, "ignoreCodes", i)
			err.Details = "it must be a status code from 400 to 499, and each at most once"
			errs = errs.Also(err)
		}
	}
	return errs
}

func (m *GateMetric) limit(kind gateMetricType) *apis.FieldError {
	if m.Limit == nil {
		return nil
	}
	if kind.unlimited {
		err := apis.ErrDisallowedFields("limit")
		err.Details = fmt.Sprintf("metrics of type %s have no limit; set it on a metric of type %s", m.Type,
			MetricSlowRequests)
		return err
	}
	if err := number("limit", *m.Limit, above(0), below(1)); err != nil {
		return err
	}
	if !(*m.Negligible < *m.Limit) {
		return apis.ErrInvalidValue(*m.Limit, "limit",
			fmt.Sprintf("it must be more than negligible, which is %v (0.005 by default)", *m.Negligible))
	}
	return nil
}

func (e *GateExposure) validate() *apis.FieldError {
	return number("minRatio", *e.MinRatio, notNegative(), below(1)).
		Also(number("maxRatio", *e.MaxRatio, above(1), upTo(maxGateRatio))).
		Also(oneOf("tooHigh", e.TooHigh, verdict.Inconclusive, verdict.Warn)).
		Also(oneOf("tooLow", e.TooLow, verdict.Inconclusive, verdict.Warn))
}

// oneOf checks a field that accepts one of two verdicts.
func oneOf(field string, is, one, other verdict.Verdict) *apis.FieldError {
	if is == one || is == other {
		return nil
	}
	return apis.ErrInvalidValue(is, field, fmt.Sprintf("it must be %s or %s", one, other))
}

func (l *GateLimits) validate() *apis.FieldError {
	err := number("unaccountedRatio", *l.UnaccountedRatio, notNegative(), upTo(1))
	if l.Restarts != nil {
		err = whole("restarts", *l.Restarts, 0, maxGateSamples).Also(err)
	}
	return err
}

func (s *GateStatistics) validate() *apis.FieldError {
	return number("alpha", *s.Alpha, above(0), upTo(.5)).
		Also(number("beta", *s.Beta, above(0), upTo(.5)))
}

func (s *GateScore) validate() *apis.FieldError {
	errs := whole("pass", int64(*s.Pass), 0, maxGateScore).
		Also(whole("warn", int64(*s.Warn), 0, maxGateScore)).
		Also(number("minCoverage", *s.MinCoverage, notNegative(), upTo(1)))
	if errs == nil && *s.Pass < *s.Warn {
		errs = apis.ErrInvalidValue(*s.Warn, "warn", fmt.Sprintf("it must not be more than pass, which is %d", *s.Pass))
	}
	return errs
}

// bound is one end of a range.
type bound struct {
	words string
	holds func(float64) bool
}

func above(n float64) bound {
	return bound{fmt.Sprintf("more than %v", n), func(v float64) bool { return v > n }}
}

func notNegative() bound {
	return bound{"0 or more", func(v float64) bool { return v >= 0 }}
}

func below(n float64) bound {
	return bound{fmt.Sprintf("less than %v", n), func(v float64) bool { return v < n }}
}

func upTo(n float64) bound {
	return bound{fmt.Sprintf("at most %v", n), func(v float64) bool { return v <= n }}
}

// number checks that a value is within both bounds. NaN never is.
func number(field string, value float64, least, most bound) *apis.FieldError {
	if least.holds(value) && most.holds(value) {
		return nil
	}
	return apis.ErrInvalidValue(value, field,
		fmt.Sprintf("it must be a number that is %s and %s", least.words, most.words))
}
