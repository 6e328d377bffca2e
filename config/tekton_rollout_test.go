// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Each step of a rollout continues from the previous one, and every increase follows a gate.
func TestTektonRollout(t *testing.T) {
	t.Parallel()
	before, percent := "", "0"
	names := map[string]bool{}
	for i, task := range one(t, "Pipeline").list(t, "spec", "tasks") {
		name := at[string](t, task, "name")
		if task["onError"] != nil || task["when"] != nil {
			t.Errorf("%s: later tasks would ignore its failure", name)
		}
		given := pairs(t, task["params"])
		switch ref := at[map[string]any](t, task, "taskRef"); {
		case ref["kind"] == "CanaryGate":
			if given["canary"] != "$(params.canary)" || given["baseline"] != "$(tasks.begin.results.baseline)" || given["service"] != "$(params.service)" {
				t.Errorf("%s judges %v", name, given)
			}
		case given["from"] != percent:
			t.Errorf("%s starts from %s, but follows %s", name, given["from"], percent)
		default:
			if i > 1 && !strings.HasPrefix(before, "gate-") {
				t.Errorf("%s follows %s, which is not a gate", name, before)
			}
			percent = given["percent"]
		}
		if after := fmt.Sprint(task["runAfter"]); i > 1 && after != "["+before+"]" {
			t.Errorf("%s runs after %s, not %s", name, after, before)
		}
		before, names[name] = name, true
	}
	if percent != "100" || len(names) != 6 {
		t.Errorf("the rollout ends with %s %% after %v", percent, names)
	}
}

// For every result of the promotion other than Succeeded, exactly one rollback runs. It needs
// nothing that a gate would have written.
func TestTektonRollback(t *testing.T) {
	t.Parallel()
	pipeline := one(t, "Pipeline")
	for status, want := range map[string]string{"Succeeded": "", "Failed": "rollback-promotion", "None": "rollback"} {
		var runs []string
		for _, task := range pipeline.list(t, "spec", "finally") {
			name := at[string](t, task, "name")
			whens := at[[]any](t, task, "when")
			in := slices.Contains(at[[]any](t, whens[0], "values"), any(status))
			if len(whens) != 1 || at[string](t, whens[0], "input") != "$(tasks.promote.status)" {
				t.Errorf("%s depends on %v", name, whens)
			}
			if in == (at[string](t, whens[0], "operator") == "in") {
				runs = append(runs, name)
			}
			if given := pairs(t, task["params"]); given["percent"] != "0" {
				t.Errorf("%s gives the canary %s %%", name, given["percent"])
			}
			for _, found := range regexp.MustCompile(`tasks\.([a-z0-9-]+)\.results`).FindAllStringSubmatch(fmt.Sprint(task), -1) {
				if found[1] != "begin" {
					t.Errorf("%s is skipped if %s has no results", name, found[1])
				}
			}
		}
		if got := strings.Join(runs, ", "); got != want {
			t.Errorf("after %s runs %q, want %q", status, got, want)
		}
	}
}

// Everything that is referenced exists.
func TestTektonReferences(t *testing.T) {
	t.Parallel()
	pipeline, task := one(t, "Pipeline"), one(t, "Task")
	named := func(p piece, path ...string) (all []string) {
		for _, item := range p.list(t, path...) {
			all = append(all, at[string](t, item, "name"))
		}
		return all
	}
	params, results := named(task, "spec", "params"), named(task, "spec", "results")
	for _, step := range slices.Concat(pipeline.list(t, "spec", "tasks"), pipeline.list(t, "spec", "finally")) {
		name := at[string](t, step, "name")
		if ref := at[string](t, step, "taskRef", "name"); ref == task.GetName() {
			for given := range pairs(t, step["params"]) {
				if !slices.Contains(params, given) {
					t.Errorf("%s: Task %s has no param %s", name, ref, given)
				}
			}
		} else if ref != "$(params.gate)" {
			t.Errorf("%s refers to unknown %s", name, ref)
		}
		for _, found := range regexp.MustCompile(`\$\(params\.([a-z-]+)\)`).FindAllStringSubmatch(fmt.Sprint(step), -1) {
			if !slices.Contains(named(pipeline, "spec", "params"), found[1]) {
				t.Errorf("%s: the Pipeline has no param %s", name, found[1])
			}
		}
		for _, found := range regexp.MustCompile(`results\.([a-z-]+)\)`).FindAllStringSubmatch(fmt.Sprint(step), -1) {
			if !slices.Contains(results, found[1]) {
				t.Errorf("%s: unknown result %s", name, found[1])
			}
		}
	}
}

// limit adds up the timeouts of the Pipeline's tasks.
func limit(t *testing.T) (sum time.Duration) {
	t.Helper()
	for _, task := range one(t, "Pipeline").list(t, "spec", "tasks") {
		d, err := time.ParseDuration(at[string](t, task, "timeout"))
		if err != nil {
			t.Error(err)
		}
		sum += d
	}
	return sum
}

// TestTektonRuns checks everything that starts the Pipeline.
func TestTektonRuns(t *testing.T) {
	t.Parallel()
	pipeline, template := one(t, "Pipeline"), one(t, "TriggerTemplate")
	runs := at[[]any](t, template.Object, "spec", "resourcetemplates")
	for _, p := range tekton(t) {
		if p.GetKind() == "PipelineRun" {
			runs = append(runs, p.Object)
		}
	}
	if len(runs) != 2 {
		t.Fatalf("%d runs", len(runs))
	}
	for _, run := range runs {
		if at[string](t, run, "spec", "pipelineRef", "name") != pipeline.GetName() || at[string](t, run, "spec", "taskRunTemplate", "serviceAccountName") != "rollout" {
			t.Errorf("%v", run)
		}
		timeouts := at[map[string]any](t, run, "spec", "timeouts")
		tasks, err := time.ParseDuration(at[string](t, timeouts, "tasks"))
		if err != nil || tasks < limit(t) || timeouts["pipeline"] != "0" || len(timeouts) != 2 {
			t.Errorf("the tasks may take %s, the run may take %v (%v)", limit(t), timeouts, err)
		}
		given := pairs(t, at[map[string]any](t, run, "spec")["params"])
		if got := slices.Sorted(maps.Keys(given)); !slices.Equal(got, []string{"canary", "gate", "service"}) {
			t.Errorf("its params are %v", got)
		}
	}
}

// A Revision gets one run, and that run does not start another.
func TestTektonTrigger(t *testing.T) {
	t.Parallel()
	template, binding, source := one(t, "TriggerTemplate"), one(t, "TriggerBinding"), one(t, "CDEventSource")
	run := at[[]any](t, template.Object, "spec", "resourcetemplates")[0]
	if name := at[string](t, run, "metadata", "name"); name != "rollout-$(tt.params.revision-uid)" {
		t.Errorf("its name is %s", name)
	}
	var wanted []string
	for _, p := range template.list(t, "spec", "params") {
		wanted = append(wanted, at[string](t, p, "name"))
		if p["default"] != nil {
			t.Errorf("%s has a default, so an event without it would start a wrong run", p["name"])
		}
	}
	given := pairs(t, at[map[string]any](t, binding.Object, "spec")["params"])
	slices.Sort(wanted)
	if got := slices.Sorted(maps.Keys(given)); !slices.Equal(got, wanted) {
		t.Errorf("the binding sets %v, the template needs %v", got, wanted)
	}
	const ready = "dev.cdeventsx.knative-revision.ready."
	if text := fmt.Sprint(one(t, "EventListener").Object); !strings.Contains(text, "startsWith('"+ready+"')") || strings.Contains(text, "traffic.shifted") {
		t.Errorf("it accepts other events: %s", text)
	}
	filters := source.list(t, "spec", "filters")
	if len(filters) != 1 || at[string](t, filters[0], "prefix", "type") != ready {
		t.Errorf("the source sends %v", filters)
	}
	if len(at[map[string]any](t, source.Object, "spec", "selector", "matchLabels")) == 0 {
		t.Error("Services take part without opting in")
	}
}
