// SPDX-License-Identifier: Apache-2.0

package route

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

type filters = []v1alpha1.Filter

func cesql(expression string) filters { return filters{{CESQL: expression}} }

// deep returns a filter that is nested in so many others.
func deep(levels int) filters {
	f := v1alpha1.Filter{Exact: map[string]string{"type": "x"}}
	for i := range levels {
		switch i % 3 {
		case 0:
			inner := f
			f = v1alpha1.Filter{Not: &inner}
		case 1:
			f = v1alpha1.Filter{All: filters{f, f}}
		default:
			f = v1alpha1.Filter{Any: filters{f}}
		}
	}
	return filters{f}
}

// Compiling and evaluating a filter is fast, whatever it contains.
func TestHostileFilters(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		filters filters
		says    string
	}{
		"too long":                   {cesql(strings.Repeat("TRUE AND ", 200_000) + "TRUE"), "1800004 bytes"},
		"a megabyte of (":            {cesql(strings.Repeat("(", 1<<20)), "bytes"},
		"unclosed parentheses":       {cesql(strings.Repeat("(", maxExpression)), "32 levels deep"},
		"unclosed functions":         {cesql(strings.Repeat("CONCAT(", maxExpression/7)), "32 levels deep"},
		"closed parentheses":         {cesql(strings.Repeat("(", 400) + "TRUE" + strings.Repeat(")", 400)), "32 levels deep"},
		"not a boolean":              {cesql("1 + 1"), "true or false"},
		"division by zero":           {cesql("1 / 0"), ""},
		"no such function":           {cesql("MINE()"), "spec.filters[0]"},
		"number out of range":        {cesql("9223372036854775808 = 1"), "spec.filters[0]"},
		"quotes":                     {cesql(strings.Repeat("'", maxExpression-1)), "spec.filters[0]"},
		"minus":                      {cesql(strings.Repeat("-", maxExpression-10) + "1 = 1"), ""},
		"many wildcards":             {cesql("type LIKE '" + strings.Repeat("%a", 500) + "'"), ""},
		"long list":                  {cesql("type IN (" + strings.Repeat("'a',", 250) + "'b')"), ""},
		"invalid UTF-8":              {cesql("type = '\xff\xfe'"), ""},
		"at the depth limit":         {deep(maxDepth - 1), ""},
		"too deep":                   {deep(maxDepth), "deep"},
		"much too deep":              {deep(40), "deep"},
		"at the number limit":        {many(maxFilters), ""},
		"too many":                   {many(maxFilters + 1), "more than 64 filters"},
		"too many inside":            {filters{{Any: many(maxFilters)}}, "more than 64 filters"},
		"empty":                      {filters{{}}, "it is empty"},
		"empty inside":               {filters{{Any: filters{{}}}}, "it is empty"},
		"unknown function after AND": {cesql("(type LIKE 'x%') AND NOWHERE(type)"), "calls NOWHERE"},
		"function in a literal":      {cesql(`type = 'it\'s NOWHERE(1)' OR "NOWHERE(" = type`), ""},
		"known functions":            {cesql("NOT (LENGTH(CONCAT(type, 'a', 'b', 'c', 'd', 'e')) = 1) AND (type IN ('a') OR ABS(-1) = 1 OR LEFT(type, 2) = 'de' OR IS_INT('1'))"), ""},
		"unknown function":           {cesql("NOWHERE(type) = 'x'"), "a function that CESQL does not have"},
		"all and cesql":              {filters{{All: many(1), CESQL: "1 + 1"}}, "all and cesql, but"},
		"exact and prefix":           {filters{{Exact: map[string]string{"type": "x"}, Prefix: map[string]string{"type": "y"}}}, "exact and prefix, but"},
		"all and any, nested":        {filters{{Not: &v1alpha1.Filter{Any: many(1), All: many(1)}}}, "all and any, but"},
		"no such attribute":          {filters{{Prefix: map[string]string{"Type": "dev."}}}, `no event has an attribute "Type"`},
		"no such attribute, nested":  {filters{{Any: filters{{Suffix: map[string]string{"ce-type": "x"}}}}}, `no event has an attribute "ce-type"`},
		"an extension":               {filters{{Exact: map[string]string{"traceparent": "x"}}}, ""},
		"incomplete":                 {cesql("type LIKE"), "is incomplete"},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			filter, err := Compile(tc.filters)
			if took := time.Since(start); took > time.Second {
				t.Errorf("took %v", took)
			}
			switch {
			case err != nil && (tc.says == "" || !strings.Contains(err.Error(), tc.says)):
				t.Errorf("got %v, want %q", err, tc.says)
			case err == nil && tc.says != "" && tc.says != "spec.filters[0]":
				t.Errorf("accepted, want %q", tc.says)
			}
			if err != nil {
				return
			}
			start = time.Now()
			if _, err := evaluate(filter, probe()); err != nil {
				t.Logf("evaluating: %v", err)
			}
			if took := time.Since(start); took > time.Second {
				t.Errorf("evaluating took %v", took)
			}
		})
	}
}

func many(n int) filters {
	all := make(filters, n)
	for i := range all {
		all[i].Prefix = map[string]string{"type": "dev.cdevents."}
	}
	return all
}

// Filters of changed sources are compiled again and again, and must not leak.
func TestFiltersDoNotLeak(t *testing.T) {
	f := NewFilters()
	source := &v1alpha1.CDEventSource{}
	source.UID = "s"
	before := runtime.NumGoroutine()
	for source.Generation = range int64(1000) {
		source.Spec.Filters = filters{{Any: filters{{All: many(3)}, {All: many(3)}}}, {Any: filters{{All: many(2)}, {CESQL: "TRUE"}}}}
		if source.Generation%2 == 1 {
			source.Spec.Filters = append(source.Spec.Filters, v1alpha1.Filter{Any: filters{{All: many(3)}, {CESQL: "1 +"}}})
		}
		if ok, err := f.Passes(source, probe()); ok == (err != nil) {
			t.Fatal(ok, err)
		}
	}
	time.Sleep(10 * time.Millisecond)
	if now := runtime.NumGoroutine(); now > before+2 {
		t.Errorf("%d goroutines more than before", now-before)
	}
	if f.Forget("s"); len(f.compiled.bySource) != 0 {
		t.Error("the filters of a deleted source are kept")
	}
}

func TestFiltersAreCompiledOncePerGeneration(t *testing.T) {
	f := NewFilters()
	source := &v1alpha1.CDEventSource{}
	source.Spec.Filters = cesql("FALSE")
	first := f.of(source)
	for range 100 {
		if again := f.of(source.DeepCopy()); again != first || again.filter == nil {
			t.Fatal("compiled again")
		}
	}
	source.Generation++
	if f.of(source) == first {
		t.Error("a changed source keeps its filters")
	}
}
