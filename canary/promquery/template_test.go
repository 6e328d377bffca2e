// SPDX-License-Identifier: Apache-2.0

package promquery

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const good = `total: sum(requests_total{namespace={{namespace}}, revision={{ revision }}})
bad: sum(requests_total{namespace={{namespace}}, service={{service}}, revision={{revision}}, code=~"5.."})
  or 0 * sum(requests_total{namespace={{namespace}}, revision={{revision}}})
`

func TestFill(t *testing.T) {
	t.Parallel()
	q, err := Parse("checkout", good)
	if err != nil {
		t.Fatal(err)
	}
	total, bad := q.Fill(Subject{Namespace: "shop", Service: "cart", Revision: `x"} or vector(0) #\`})
	if total != `sum(requests_total{namespace="shop", revision="x\"} or vector(0) #\\"})` || !strings.Contains(bad, `service="cart"`) {
		t.Errorf("%s\n%s", total, bad)
	}
	// What was filled in cannot leave its string.
	if err := check(total); err == nil || !strings.Contains(err.Error(), "namespace={{namespace}}") {
		t.Errorf("%v", err)
	}
	other := q
	if other.Bad += " "; other.Version() == q.Version() || q.Version() == "" {
		t.Errorf("another query has the same version %s", q.Version())
	}
}

func TestWrongTemplates(t *testing.T) {
	t.Parallel()
	of := func(total string) string {
		return "total: '" + strings.ReplaceAll(total, "'", "''") + "'\nbad: sum(a{n={{namespace}},r={{revision}}})\n"
	}
	for text, want := range map[string]string{
		"nonsense":        "query.q must have the fields total and bad",
		good + "scale: 2": "unknown field",
		"total: sum(a{n={{namespace}},r={{revision}}})":        "query.q: bad: it is missing; write an expression such as sum(",
		of(`sum(a{n={{namespace}},r={{revision}})`):            "query.q: total: it is not valid PromQL",
		of(`sum(a{n="{{namespace}}",r={{revision}}})`):         "write placeholders without quotes",
		of(`sum(a{n={{namespace}},r={{pod}}})`):                "{{pod}} is not known; the placeholders are",
		of(`sum(a{n={{namespace}}})`):                          "the canary and its baseline would be the same",
		of(`sum(a{r={{revision}}})`):                           "the series a are not limited to one namespace",
		of(`sum(a{n={{namespace}},r={{revision}}}) + sum(b)`):  "the series b are not limited to one namespace",
		of(`sum(a{n!={{namespace}},r={{revision}}})`):          "not limited to one namespace",
		of(`sum(rate(a{n={{namespace}},r={{revision}}}[1m]))`): "rate() is not allowed; return the counters themselves",
		of(`a{n={{namespace}},r={{revision}}}[5m]`):            "it returns a range vector; it must return one number",
		of(`{{namespace}}`):                                    "it returns a string",
		of(strings.Repeat(" ", 5000) + "a"):                    "at most 4096",
	} {
		_, err := Parse("q", text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	if _, err := Parse("My_query", good); err == nil || !strings.Contains(err.Error(), "is not a valid name") {
		t.Errorf("%v", err)
	}
}

// The example that operators copy is right.
func TestExample(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../config/400-config-canary.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c corev1.ConfigMap
	if err := yaml.Unmarshal(content, &c); err != nil {
		t.Fatal(err)
	}
	var example map[string]string
	if err := yaml.Unmarshal([]byte(c.Data["_example"]), &example); err != nil {
		t.Fatal(err)
	}
	if _, err := Parse("checkout", example["query.checkout"]); err != nil {
		t.Error(err)
	}
}

// A count is a sum of counters. What else PromQL can make of them is refused: it would become less, or stand for
// something else, although no counter did.
func TestOnlyCountersAreCounted(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`sum(X)`:                      "",
		`sum(X) + sum(X)`:             "",
		`sum(X) - sum(X)`:             "",
		`sum(X) * 2`:                  "",
		`sum(X) / 2`:                  "",
		`sum(max by (pod) (X))`:       "",
		`sum(last_over_time(X[1d]))`:  "",
		`sum(max_over_time(X[1d]))`:   "",
		`sum(X) or 0 * sum(X)`:        "",
		`sum(X) or (sum(X) * 0)`:      "",
		`round(sum(X))`:               "",
		`sum(changes(X[5m]))`:         "changes() is not allowed",
		`sum(resets(X[5m]))`:          "resets() is not allowed",
		`sum(increase(X[5m]))`:        "increase() is not allowed",
		`sum(count_over_time(X[5m]))`: "count_over_time() is not allowed",
		`sum(sum_over_time(X[5m]))`:   "sum_over_time() is not allowed",
		`sum(avg_over_time(X[5m]))`:   "avg_over_time() is not allowed",
		`sum(timestamp(X))`:           "timestamp() is not allowed",
		`absent(X)`:                   "absent() is not allowed",
		`count(X)`:                    "count(…) is not allowed",
		`avg(X)`:                      "avg(…) is not allowed",
		`quantile(0.9, X)`:            "quantile(…) is not allowed",
		`sum(X) or sum(X)`:            "or sum(requests_total{",
		`sum(X) or vector(0)`:         "or vector(0) is not allowed",
		`sum(X or X)`:                 "or requests_total{",
		`sum(X) unless sum(X)`:        "the operator unless is not allowed",
		`sum(X) and sum(X)`:           "the operator and is not allowed",
		`sum(X) > 5`:                  "the operator > is not allowed",
		`sum(X) / sum(X)`:             "may be divided by a number only",
		`sum(X) % 10`:                 "the operator % is not allowed",
		`sum(X) ^ 2`:                  "the operator ^ is not allowed",
		`sum(rate(X[5m])) or sum(changes(requests_total[5m]))`:   "or sum(changes(",
		`max(X) + sum(last_over_time(resets(X[1h])[1d:1m]))`:     "resets() is not allowed",
		`sum(X) or (0 * sum(X) + 1)`:                             "or (0 * sum(",
		`sum(X) or 1 * sum(X)`:                                   "or 1 * sum(",
		`sum(label_replace(X, "a", "$1", "b", "(.*)"))`:          "",
		`sum(requests_total{namespace={{namespace}}}) or sum(X)`: "or sum(requests_total{",
	} {
		text = strings.ReplaceAll(text, "X", "requests_total{namespace={{namespace}},revision={{revision}}}")
		err := check(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
