// SPDX-License-Identifier: Apache-2.0

package flagger

import (
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/yaml"
)

// canary is the part of a Canary that decides.
type canary struct {
	Spec struct {
		Analysis *struct {
			Interval    string   `json:"interval"`
			Threshold   int      `json:"threshold"`
			MaxWeight   int      `json:"maxWeight"`
			StepWeight  int      `json:"stepWeight"`
			StepWeights []int    `json:"stepWeights"`
			Iterations  int      `json:"iterations"`
			Metrics     []metric `json:"metrics"`
		} `json:"analysis"`
	} `json:"spec"`
}

// shortest is the shortest interval that Flagger takes.
const shortest = 10 * time.Second

type metric struct {
	Name      string   `json:"name"`
	Interval  string   `json:"interval"`
	Threshold *float64 `json:"threshold"`
	Range     *struct {
		Min *float64 `json:"min"`
		Max *float64 `json:"max"`
	} `json:"thresholdRange"`
}

// Read returns the analysis of a Canary, in YAML or JSON, and what is left out: what other metrics ask for is not kept.
func Read(raw []byte) (a Analysis, left []string, err error) {
	var c canary
	if err := yaml.Unmarshal(raw, &c); err != nil {
		return a, nil, fmt.Errorf("reading the Canary: %w", err)
	}
	of := c.Spec.Analysis
	switch {
	case of == nil:
		return a, nil, errors.New("the Canary has no spec.analysis")
	case of.Iterations > 0:
		return a, nil, errors.New("spec.analysis.iterations is not supported; use maxWeight and stepWeight")
	}
	a = Analysis{
		Interval: time.Minute, Threshold: max(1, of.Threshold), MaxWeight: of.MaxWeight, StepWeight: of.StepWeight,
	}
	if n := len(of.StepWeights); n > 0 {
		a.MaxWeight, a.StepWeight = n, 1
	}
	if a.StepWeight <= 0 || a.MaxWeight <= 0 {
		return a, nil, errors.New("spec.analysis needs maxWeight and stepWeight, or stepWeights, above 0")
	}
	if err := duration(of.Interval, &a.Interval); err != nil {
		return a, nil, fmt.Errorf("spec.analysis.interval: %w", err)
	}
	a.Interval = max(a.Interval, shortest)
	for _, m := range of.Metrics {
		least, most := m.Threshold, m.Threshold
		if m.Range != nil {
			least, most = m.Range.Min, m.Range.Max
		}
		switch {
		case m.Name == "request-success-rate" && least != nil:
			a.MinSuccessRate = *least
		case m.Name == "request-duration" && most != nil:
			a.MaxDuration = time.Duration(*most * float64(time.Millisecond))
		default:
			left = append(left, m.Name+": only request-success-rate with a min and request-duration with a max can be computed")
			continue
		}
		within := time.Minute
		if err := duration(m.Interval, &within); err != nil {
			return a, nil, fmt.Errorf("interval of metric %s: %w", m.Name, err)
		}
		if a.MetricInterval != 0 && a.MetricInterval != within {
			return a, nil, fmt.Errorf("interval of metric %s: two metrics with different intervals are not supported", m.Name)
		}
		a.MetricInterval = within
	}
	if a.MinSuccessRate == 0 && a.MaxDuration == 0 {
		return a, left, errors.New("spec.analysis.metrics has neither request-success-rate nor request-duration")
	}
	return a, left, nil
}

// duration keeps what it is if there is no text.
func duration(text string, to *time.Duration) error {
	if text == "" {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is no duration above 0, such as 1m", text)
	}
	*to = d
	return nil
}
