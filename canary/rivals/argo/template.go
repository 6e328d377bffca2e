// SPDX-License-Identifier: Apache-2.0

package argo

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// template is the part of an AnalysisTemplate that decides.
type template struct {
	Spec struct {
		Metrics []struct {
			Name              string             `json:"name"`
			Interval          string             `json:"interval"`
			InitialDelay      string             `json:"initialDelay"`
			Count             intstr.IntOrString `json:"count"`
			SuccessCondition  string             `json:"successCondition"`
			FailureCondition  string             `json:"failureCondition"`
			FailureLimit      intstr.IntOrString `json:"failureLimit"`
			InconclusiveLimit intstr.IntOrString `json:"inconclusiveLimit"`
			Successes         any                `json:"consecutiveSuccessLimit"`
			Provider          struct {
				Prometheus *struct {
					Query string `json:"query"`
				} `json:"prometheus"`
			} `json:"provider"`
		} `json:"metrics"`
	} `json:"spec"`
}

// Read returns the metrics of an AnalysisTemplate, in YAML or JSON, and why others are left out. A template does not say
// when its Rollout begins it: a metric without initialDelay is measured first after one interval.
func Read(raw []byte) (out []Metric, left []string, err error) {
	var t template
	if err := yaml.Unmarshal(raw, &t); err != nil {
		return nil, nil, fmt.Errorf("reading the AnalysisTemplate: %w", err)
	}
	for _, m := range t.Spec.Metrics {
		is := Metric{Name: m.Name, Count: m.Count.IntValue(), FailureLimit: m.FailureLimit.IntValue(), InconclusiveLimit: m.InconclusiveLimit.IntValue()}
		switch {
		case m.Provider.Prometheus == nil:
			err = fmt.Errorf("only provider.prometheus can be computed")
		case m.Successes != nil:
			err = fmt.Errorf("consecutiveSuccessLimit is not known here")
		default:
			is.Value, err = ReadQuery(m.Provider.Prometheus.Query)
		}
		for text, to := range map[string]**Condition{m.SuccessCondition: &is.Success, m.FailureCondition: &is.Failure} {
			if text != "" && err == nil {
				*to, err = condition(text)
			}
		}
		for text, to := range map[string]*time.Duration{m.Interval: &is.Interval, m.InitialDelay: &is.Start} {
			if text != "" && err == nil {
				*to, err = time.ParseDuration(text)
			}
		}
		switch {
		case err != nil:
			left = append(left, fmt.Sprintf("%s: %s", m.Name, err))
			err = nil
			continue
		case is.Interval <= 0:
			is.Interval, is.Count = time.Minute, 1 // one measurement, as Argo takes it
		}
		if m.InitialDelay == "" {
			is.Start = is.Interval
		}
		out = append(out, is)
	}
	if len(out) == 0 {
		return nil, left, fmt.Errorf("nothing in the AnalysisTemplate can be computed: %s", strings.Join(left, "; "))
	}
	return out, left, nil
}

var comparison = regexp.MustCompile(`^\s*result(?:\[0\])?\s*(<=|>=|<|>|==|!=)\s*([0-9.eE+-]+)\s*$`)

func condition(text string) (*Condition, error) {
	found := comparison.FindStringSubmatch(text)
	if found == nil {
		return nil, fmt.Errorf("condition %q is not a comparison of result with a number", text)
	}
	than, err := strconv.ParseFloat(found[2], 64)
	if err != nil {
		return nil, fmt.Errorf("condition %q: %w", text, err)
	}
	return &Condition{Op: found[1], Than: than}, nil
}
