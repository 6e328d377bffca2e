// SPDX-License-Identifier: Apache-2.0

package route

import (
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
)

// decide returns a filter's decision about an event: yes, no, or an error message.
func decide(t *testing.T, f filters, ev event.Event) string {
	t.Helper()
	compiled, err := Compile(f)
	if err != nil {
		t.Fatal(err)
	}
	ok, err := evaluate(compiled, ev)
	switch {
	case err != nil:
		return err.Error()
	case ok:
		return "yes"
	}
	return "no"
}

// See CloudEvents SQL 1.0, sections 1.2 (an error does not pass), 3.2 (missing attributes) and
// 3.6 (precedence, short circuits). Some cases are examples from the specification.
func TestMissingAttributes(t *testing.T) {
	with := probe()
	with.SetExtension("team", "web")
	other := probe()
	other.SetExtension("team", "shop")
	for text, want := range map[string]string{ // without the attribute, with web, with another value
		"team = 'web'":                             "no yes no",
		"team != 'web'":                            "no no yes",
		"NOT (team = 'web')":                       "no no yes",
		"NOT EXISTS team OR team != 'web'":         "yes no yes",
		"EXISTS team AND team != 'web'":            "no no yes",
		"TRUE AND (team = '')":                     "no no no",
		"team = 'web' OR subject LIKE 'service/%'": "no yes yes",
		"subject LIKE 'service/%' OR team = 'web'": "yes yes yes",
		"team IN ('web', 'x')":                     "no yes no",
		"team NOT IN ('web')":                      "no no yes",
		"team LIKE 'w%'":                           "no yes no",
		"1 / team = 1":                             "no ERR ERR", // false if the attribute is missing
	} {
		var got []string
		for _, ev := range []event.Event{probe(), with, other} {
			is := decide(t, cesql(text), ev)
			if is != "yes" && is != "no" {
				is = "ERR"
			}
			got = append(got, is)
		}
		if is := strings.Join(got, " "); is != want {
			t.Errorf("%s: %s, want %s", text, is, want)
		}
	}
	// "not" passes if its filter does not pass (Subscriptions API).
	if got := decide(t, filters{{Not: &v1alpha1.Filter{CESQL: "team = 'web'"}}}, probe()); got != "yes" {
		t.Error(got)
	}
}

// An error does not count as a no. It fails the filter unless another part decides.
func TestFilterErrors(t *testing.T) {
	errs := v1alpha1.Filter{CESQL: "NOT type = 'x'"}
	yes, no := v1alpha1.Filter{CESQL: "TRUE"}, v1alpha1.Filter{CESQL: "FALSE"}
	for name, c := range map[string]struct {
		f    filters
		want string
	}{
		"error":            {filters{errs}, "ERR"},
		"error, no":        {filters{errs, no}, "no"},
		"no, error":        {filters{no, errs}, "no"},
		"error, yes":       {filters{errs, yes}, "ERR"},
		"not error":        {filters{{Not: &errs}}, "ERR"},
		"any: error, yes":  {filters{{Any: filters{errs, yes}}}, "yes"},
		"any: no, error":   {filters{{Any: filters{no, errs}}}, "ERR"},
		"any: error, no":   {filters{{Any: filters{errs, no}}}, "ERR"},
		"all: error, no":   {filters{{All: filters{errs, no}}}, "no"},
		"math":             {cesql("1 / 0 = 1"), "ERR"},
		"cast":             {cesql("INT(type) = 1"), "ERR"},
		"function":         {cesql("SUBSTRING(type, 4000) = 'x'"), "ERR"},
		"no short circuit": {cesql("FALSE OR 1 / 0 = 1"), "ERR"},
		"short circuit":    {cesql("TRUE OR 1 / 0 = 1"), "yes"},
		"no filter":        {filters{}, "yes"},
	} {
		got := decide(t, c.f, probe())
		if got != "yes" && got != "no" {
			got = "ERR"
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func samples(t *testing.T, version string) []event.Event {
	t.Helper()
	all, err := cdevents.Samples(v1alpha1.Profile{SpecVersion: version, Source: "https://cluster.example.com", Extensions: map[string]string{"team": "web"}})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Check evaluates a filter on a sample of each event type, and suggests what was meant.
func TestCheckRejectsFiltersThatFailOnASample(t *testing.T) {
	all := samples(t, "0.5")
	for text, says := range map[string]string{
		"NOT type = 'x'":  "write NOT (type = 'x')",
		"not type != 'x'": "write NOT (type != 'x')",
		"type LIKE 'dev.cdevents.service.removed%' AND NOT subject = 'x'": "write type LIKE 'dev.cdevents.service.removed%' AND NOT (subject = 'x')",
		"NOT type LIKE 'x%' AND NOT type IN ('a', 'NOT b = ')":            "write NOT (type LIKE 'x%') AND NOT (type IN ('a', 'NOT b = '))",
		"NOT UPPER(type) = 'NOT type = x'":                                "write NOT (UPPER(type) = 'NOT type = x')",
		"NOT team = \"it's\"":                                             "write NOT (team = \"it's\")",
		"NOT source NOT LIKE '%x'":                                        "write NOT (source NOT LIKE '%x')",
		"NOT subject":                                                     "cannot be evaluated",
		"subject":                                                         "true or false",
		"1 / 0 = 1":                                                       "division by zero",
		"subject > 5":                                                     "cannot be evaluated",
		"type LIKE 'dev.cdeventsx.stateful-cluster.formed%' AND INT(type) = 1": "stateful-cluster.formed",
		"tier != 'web'":                         "no event of this source has the attribute tier",
		"type = 'x' OR tier = 'web'":            "NOT EXISTS tier OR (",
		"NOT (team = 'web')":                    "",
		"NOT (type = 'x') AND team != 'y'":      "",
		"NOT EXISTS tier OR tier != 'web'":      "",
		"EXISTS traceparent AND EXISTS subject": "",
		"traceparent LIKE '00-%'":               "",
		"subject = 'NOT type = x'":              "",
		"time > 'x' OR TRUE":                    "cannot be evaluated",
	} {
		err := Check(cesql(text), all)
		switch {
		case says == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case says != "" && (err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "spec.filters[0]")):
			t.Errorf("%s: got %v, want %q", text, err, says)
		}
		if says == "" && Check(cesql(text), samples(t, "0.4")) != nil {
			t.Errorf("%s: rejected with version 0.4", text)
		}
	}
	deepInside := append(many(1), v1alpha1.Filter{Any: filters{{Not: &v1alpha1.Filter{CESQL: "NOT type = 'x'"}}}})
	if err := Check(deepInside, all); err == nil || !strings.Contains(err.Error(), "spec.filters[1]") {
		t.Error(err)
	}
	if err := Check(many(maxFilters+1), all); err == nil || !strings.Contains(err.Error(), "more than 64") {
		t.Error(err)
	}
}
