// SPDX-License-Identifier: Apache-2.0

package argo

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// template is the part of an AnalysisTemplate that decides.
type template struct {
	Spec struct {
		Metrics []metric `json:"metrics"`
	} `json:"spec"`
}

type metric struct {
	Name                  string             `json:"name"`
	Interval              *v1alpha1.Duration `json:"interval"`
	InitialDelay          *v1alpha1.Duration `json:"initialDelay"`
	Count                 intstr.IntOrString `json:"count"`
	SuccessCondition      string             `json:"successCondition"`
	FailureCondition      string             `json:"failureCondition"`
	FailureLimit          intstr.IntOrString `json:"failureLimit"`
	ConsecutiveSuccessful any                `json:"consecutiveSuccessLimit"`
	Provider              struct {
		Prometheus struct {
			Query string `json:"query"`
		} `json:"prometheus"`
	} `json:"provider"`
}

// Read returns the metrics of an AnalysisTemplate, in YAML or JSON, and why others are left out. A template does not
// say when its Rollout begins it: a metric without initialDelay is measured first after one interval.
func Read(raw []byte) (out []Metric, left []string, err error) {
	var t template
	if err := yaml.Unmarshal(raw, &t); err != nil {
		return nil, nil, fmt.Errorf("reading the AnalysisTemplate: %w", err)
	}
	for _, m := range t.Spec.Metrics {
		if is, err := m.read(); err != nil {
			left = append(left, fmt.Sprintf("%s: %s", m.Name, err))
		} else {
			out = append(out, is)
		}
	}
	if len(out) == 0 {
		return nil, left, fmt.Errorf("nothing in the AnalysisTemplate can be computed: %s", strings.Join(left, "; "))
	}
	return out, left, nil
}

// shortest is the shortest interval that is computed. What is kept of a run is much coarser.
const shortest = time.Second

var comparison = regexp.MustCompile(`^\s*result(?:\[0\])?\s*(<=|>=|<|>)\s*([0-9.eE+-]+)\s*$`)

func (m *metric) read() (Metric, error) {
	is := Metric{Name: m.Name, Interval: time.Minute, Count: 1, FailureLimit: m.FailureLimit.IntValue()}
	if m.Interval != nil { // without one, there is one measurement
		is.Interval, is.Count = m.Interval.Duration, m.Count.IntValue()
	}
	if is.Start = is.Interval; m.InitialDelay != nil {
		is.Start = m.InitialDelay.Duration
	}
	text := m.SuccessCondition
	if text == "" {
		text, is.Fails = m.FailureCondition, true
	}
	found := comparison.FindStringSubmatch(text)
	switch {
	case m.Provider.Prometheus.Query == "":
		return is, errors.New("only provider.prometheus can be computed")
	case m.ConsecutiveSuccessful != nil, m.SuccessCondition != "" && m.FailureCondition != "", is.Interval < shortest, is.Start < 0:
		return is, errors.New("it must have one condition, no consecutiveSuccessLimit, no interval below 1s and no negative delay")
	case is.FailureLimit < 0:
		return is, errors.New("failureLimit must not be negative: without consecutiveSuccessLimit, Argo Rollouts refuses it")
	case found == nil:
		return is, fmt.Errorf("condition %q is not a comparison of result with a number", text)
	}
	than, err := strconv.ParseFloat(found[2], 64)
	if err != nil {
		return is, fmt.Errorf("condition %q: %w", text, err)
	}
	is.Op, is.Than = found[1], than
	is.Value, err = ReadQuery(m.Provider.Prometheus.Query)
	return is, err
}
