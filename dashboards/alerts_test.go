// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"

	"github.com/knative-cdevents/knative-cdevents/reconciler/gate"
)

type rule struct {
	Record, Alert, Expr string
	Labels, Annotations map[string]string
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	if err := yaml.Unmarshal(Rules, &file); err != nil {
		t.Fatal(err)
	}
	var out []rule
	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	if len(out) < 10 {
		t.Fatalf("there are %d rules", len(out))
	}
	return out
}

// ofOthers are metrics that the API server exports, the webhook, and the doorbell: their own tests check that they do.
var ofOthers = []string{
	"apiserver_admission_webhook_rejection_count", "cdevents_webhook_certificate_expiration_timestamp_seconds",
	"cdevents_doorbell_core_down", "cdevents_doorbell_oldest_unanswered_seconds",
}

// An alert on a metric that is not exported never fires, and nothing reports it.
func TestEveryRuleUsesExportedMetrics(t *testing.T) {
	names := exported(t)
	for _, name := range described(t) {
		names[name] = true
	}
	for _, name := range ofOthers {
		names[name] = true
	}
	all := rules(t)
	for _, r := range all {
		if r.Record != "" {
			names[r.Record] = true
		}
	}
	for _, r := range all {
		e, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
		if err != nil {
			t.Errorf("%s%s: %v", r.Record, r.Alert, err)
			continue
		}
		for _, matchers := range parser.ExtractSelectors(e) {
			i := slices.IndexFunc(matchers, func(m *labels.Matcher) bool { return m.Name == "__name__" })
			if i < 0 || !names[matchers[i].Value] {
				t.Errorf("%s%s: %v is not exported", r.Record, r.Alert, matchers)
			}
		}
	}
}

// described returns the names of the metrics of gates. A gate has series only while it has a run.
func described(t *testing.T) []string {
	t.Helper()
	descs := make(chan *prometheus.Desc, 100)
	gate.NewMetrics(time.Now, nil).Describe(descs)
	close(descs)
	var out []string
	name := regexp.MustCompile(`fqName: "([^"]+)"`)
	for d := range descs {
		if m := name.FindStringSubmatch(d.String()); m != nil {
			out = append(out, m[1])
		}
	}
	return out
}

// TestEveryAlertHasARunbook checks that an alert leads to a section that says what it means and what to do, and that
// there is no section for an alert that does not exist.
func TestEveryAlertHasARunbook(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(page), "\n## ")[1:] {
		title, text, _ := strings.Cut(s, "\n")
		sections[title] = text
	}
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		text, has := sections[r.Alert]
		delete(sections, r.Alert)
		for _, part := range []string{"**Meaning.**", "**Impact.**", "**Look at.**", "**Do.**"} {
			if !has || !strings.Contains(text, part) {
				t.Errorf("the runbook of %s has no part %s", r.Alert, part)
			}
		}
		if want := "/docs/runbooks.md#" + strings.ToLower(r.Alert); !strings.HasSuffix(r.Annotations["runbook_url"], want) {
			t.Errorf("%s leads to %s, not to %s", r.Alert, r.Annotations["runbook_url"], want)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || !slices.Contains([]string{"warning", "critical"}, r.Labels["severity"]) {
			t.Errorf("%s lacks a summary, a description or a severity", r.Alert)
		}
	}
	for title := range sections {
		if title != "Install the alerts" {
			t.Errorf("the runbook has a section %q, and there is no such alert", title)
		}
	}
}

// TestRules runs the tests beside the rules with promtool. Debian's package prometheus brings it.
func TestRules(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: apt-get install prometheus")
	}
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "tests.yaml"}} {
		c := exec.CommandContext(t.Context(), program, args...)
		c.Dir = "alerts"
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// TestEveryAlertIsTested checks that each alert fires in a test, and does not in another one.
func TestEveryAlertIsTested(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("alerts/tests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string
				ExpAlerts []any `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, test := range file.Tests {
		for _, a := range test.AlertRuleTest {
			seen[fmt.Sprint(a.Alertname, len(a.ExpAlerts) > 0)] = true
		}
	}
	for _, r := range rules(t) {
		if r.Alert != "" && (!seen[r.Alert+"true"] || !seen[r.Alert+"false"]) {
			t.Errorf("%s: it fires in a test: %v, it does not: %v", r.Alert, seen[r.Alert+"true"], seen[r.Alert+"false"])
		}
	}
}
