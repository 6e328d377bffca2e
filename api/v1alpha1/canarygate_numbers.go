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
	types := []string{MetricErrorRate, MetricEntryErrors, MetricSlowRequests, MetricSlowerAnywhere, MetricQuery}
	if !slices.Contains(types, m.Type) {
		return apis.ErrInvalidValue(m.Type, "type", "it must be one of "+strings.Join(types, ", "))
	}
	if wrong := validation.IsValidLabelValue(m.Name); len(wrong) > 0 {
		errs = errs.Also(apis.ErrInvalidValue(m.Name, "name", strings.Join(wrong, "; ")))
	}
	return errs.Also(m.query()).
		Also(m.threshold()).
		Also(number("maxOddsRatio", *m.MaxOddsRatio, above(1), upTo(maxGateOdds))).
		Also(number("negligible", *m.Negligible, above(0), below(1))).
		Also(m.limit()).
		Also(number("weight", *m.Weight, above(0), upTo(maxGateWeight)))
}

func (m *GateMetric) query() *apis.FieldError {
	switch {
	case m.Type == MetricQuery && m.Query == "":
		err := apis.ErrMissingField("query")
		err.Details = "it must be the name of a query in ConfigMap config-canary; ask the operator which ones there are"
		return err
	case m.Type == MetricQuery:
		if wrong := validation.IsDNS1123Label(m.Query); len(wrong) > 0 {
			return apis.ErrInvalidValue(m.Query, "query", "it must be the name of a query in ConfigMap config-canary, not a query: "+strings.Join(wrong, "; "))
		}
	case m.Query != "":
		err := apis.ErrDisallowedFields("query")
		err.Details = fmt.Sprintf("only metrics of type %s have a query; the type of this one is %s", MetricQuery, m.Type)
		return err
	}
	return nil
}

func (m *GateMetric) threshold() *apis.FieldError {
	switch {
	case m.Threshold == nil:
		return nil
	case m.Type != MetricSlowRequests:
		err := apis.ErrDisallowedFields("threshold")
		err.Details = fmt.Sprintf("only metrics of type %s have a threshold; the type of this one is %s", MetricSlowRequests, m.Type)
		return err
	case !slices.Contains(GateThresholds(), *m.Threshold):
		return apis.ErrInvalidValue(*m.Threshold, "threshold",
			fmt.Sprintf("it must be a bound of the histogram in which durations are counted, in seconds: one of %v", GateThresholds()))
	}
	return nil
}

func (m *GateMetric) limit() *apis.FieldError {
	if m.Limit == nil {
		return nil
	}
	if m.Type == MetricSlowerAnywhere {
		err := apis.ErrDisallowedFields("limit")
		err.Details = fmt.Sprintf("metrics of type %s have no limit; set it on a metric of type %s", m.Type, MetricSlowRequests)
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
		Also(oneOf("tooHigh", e.TooHigh, verdict.Inconclusive, verdict.Warn))
}

// oneOf checks a field that accepts one of two verdicts.
func oneOf(field string, is, one, other verdict.Verdict) *apis.FieldError {
	if is == one || is == other {
		return nil
	}
	return apis.ErrInvalidValue(is, field, fmt.Sprintf("it must be %s or %s", one, other))
}

func (l *GateLimits) validate() *apis.FieldError {
	return whole("restarts", *l.Restarts, 0, maxGateSamples).
		Also(number("unaccountedRatio", *l.UnaccountedRatio, notNegative(), upTo(1)))
}

func (s *GateStatistics) validate() *apis.FieldError {
	return number("alpha", *s.Alpha, above(0), upTo(.5)).
		Also(number("beta", *s.Beta, above(0), upTo(.5)))
}

func (s *GateScore) validate() *apis.FieldError {
	errs := number("pass", *s.Pass, notNegative(), upTo(100)).
		Also(number("warn", *s.Warn, notNegative(), upTo(100))).
		Also(number("minCoverage", *s.MinCoverage, notNegative(), upTo(1)))
	if errs == nil && *s.Pass < *s.Warn {
		errs = apis.ErrInvalidValue(*s.Warn, "warn", fmt.Sprintf("it must not be more than pass, which is %v", *s.Pass))
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
	return apis.ErrInvalidValue(value, field, fmt.Sprintf("it must be a number that is %s and %s", least.words, most.words))
}
