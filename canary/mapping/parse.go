// SPDX-License-Identifier: Apache-2.0

package mapping

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// The most mappings and rules in a configuration, because every series of every pod is looked up in
// them.
const (
	mostMappings = 32
	mostRules    = 32
)

var (
	nameForm   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	familyForm = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	labelForm  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// taken lists the names of the built-in mappings.
var taken = []string{NeutralName, EntryName, EntryOldName}

// document is a mapping as an operator writes it.
type document struct {
	Runtimes []string `json:"runtimes,omitempty"`
	Rules    []Rule   `json:"rules"`
}

// Parse reads one mapping. It reports all errors at once: where, what, and what would be right.
func Parse(name, content string) (Mapping, error) {
	if !nameForm.MatchString(name) || slices.Contains(taken, name) {
		return Mapping{}, fmt.Errorf("the name %q is not allowed; use lowercase letters, digits and dashes, and none of %s",
			name, strings.Join(taken, ", "))
	}
	var w document
	if err := yaml.UnmarshalStrict([]byte(content), &w); err != nil {
		return Mapping{}, fmt.Errorf("it is not a mapping; write it like the example, with runtimes and rules: %w", err)
	}
	if len(w.Rules) == 0 || len(w.Rules) > mostRules {
		return Mapping{}, fmt.Errorf("rules has %d entries; it must have 1 to %d", len(w.Rules), mostRules)
	}
	errs := []error{checkRuntimes(w.Runtimes)}
	for i := range w.Rules {
		if err := w.Rules[i].check(); err != nil {
			errs = append(errs, fmt.Errorf("rules[%d]: %w", i, err))
		}
	}
	if !slices.ContainsFunc(w.Rules, func(r Rule) bool { return r.Figure == Finished }) {
		errs = append(errs, errors.New("no rule has figure: finished, so nothing would count as handled; add one"))
	}
	return Mapping{Name: name, Runtimes: w.Runtimes, Rules: w.Rules}, errors.Join(errs...)
}

// checkRuntimes refuses a runtime that no template can declare, because its mapping would never apply.
func checkRuntimes(runtimes []string) error {
	known := names(v1alpha1.Runtimes())
	var errs []error
	for i, r := range runtimes {
		if !slices.Contains(known, r) {
			errs = append(errs, fmt.Errorf("runtimes[%d] is %q; it must be one of %s", i, sanitize.Truncate(r, hintLength),
				strings.Join(known, ", ")))
		}
	}
	return errors.Join(errs...)
}

// forms lists the values that each figure may be read from, the usual one first.
var forms = map[Figure][]Value{
	Started:       {Counter, Count, Sum},
	Finished:      {Counter, Count, Sum},
	ShardFinished: {Counter, Count, Sum},
	ShardSlow:     {Counter, Count, Sum},
	Duration:      {Histogram},
	Shards:        {Gauge},
}

// check validates a rule and sets the default value.
func (r *Rule) check() error {
	allowed, ok := forms[r.Figure]
	if !ok {
		return fmt.Errorf("figure is %q; it must be one of %s", r.Figure,
			strings.Join(names(slices.Sorted(maps.Keys(forms))), ", "))
	}
	var errs []error
	if !familyForm.MatchString(r.Family) {
		errs = append(
			errs,
			fmt.Errorf(
				"family is %q, which is not the name of a metric; use the exported name, without _bucket, _count and _sum",
				r.Family,
			),
		)
	}
	if r.Value == "" {
		r.Value = allowed[0]
	}
	if !slices.Contains(allowed, r.Value) {
		errs = append(errs, fmt.Errorf("value is %q; for figure %s, it must be one of %s", r.Value, r.Figure,
			strings.Join(names(allowed), ", ")))
	}
	if r.Outcome != nil && r.Figure != Finished && r.Figure != ShardFinished {
		errs = append(errs, fmt.Errorf("outcome is set, but figure %s does not have one; remove it", r.Figure))
	}
	if perShard := r.Figure == ShardFinished || r.Figure == ShardSlow; perShard != (r.Shard != nil) {
		errs = append(errs, errors.New("shard must be set for shardFinished and shardSlow, and for no other figure"))
	}
	for label := range r.Match {
		if !labelForm.MatchString(label) {
			errs = append(errs, fmt.Errorf("match has %q, which is not the name of a label", label))
		}
	}
	for _, f := range []struct {
		name string
		from *From
	}{{"entityType", r.EntityType}, {"outcome", r.Outcome}, {"shard", r.Shard}} {
		if err := f.from.check(f.name == "outcome"); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.name, err))
		}
	}
	return errors.Join(errs...)
}

func (f *From) check(isOutcome bool) error {
	if f == nil {
		return nil
	}
	if (f.Label == "") == (f.Value == "") {
		return errors.New("set either a label of the series or a constant value")
	}
	if f.Label != "" && !labelForm.MatchString(f.Label) {
		return fmt.Errorf("label is %q, which is not the name of a label", f.Label)
	}
	if f.Label == "" && (f.Values != nil || f.Other != "" || f.TrimPrefix != "") {
		return errors.New("values, other and trimPrefix need a label")
	}
	if f.TrimPrefix != "" && (f.Values != nil || f.Other != "") {
		return errors.New("trimPrefix cannot be combined with values and other")
	}
	if !isOutcome {
		return nil
	}
	for _, o := range append(slices.Sorted(maps.Values(f.Values)), f.Other, f.Value) {
		if o != "" && !slices.Contains(outcomes, o) {
			return fmt.Errorf("%q is not an outcome; it must be one of %s", o, strings.Join(outcomes, ", "))
		}
	}
	return nil
}

func names[T ~string](all []T) []string {
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = string(v)
	}
	return out
}

// ParseAll reads the mappings of a configuration. It returns them sorted by name, which is the order of
// trust.
func ParseAll(texts map[string]string) ([]Mapping, error) {
	if len(texts) > mostMappings {
		return nil, fmt.Errorf("there are %d mappings; at most %d are allowed", len(texts), mostMappings)
	}
	var all []Mapping
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		m, err := Parse(name, texts[name])
		if err != nil {
			errs = append(errs, fmt.Errorf("mapping %s: %w", name, err))
		}
		all = append(all, m)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return all, nil
}
