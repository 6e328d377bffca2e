// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

func environmentPieces(t *testing.T) []piece {
	t.Helper()
	return slices.DeleteFunc(allTekton(t), func(p piece) bool { return !ofEnvironments(p) })
}

// A new environment starts one run, with what the event says of it.
func TestEnvironmentFlowTrigger(t *testing.T) {
	t.Parallel()
	all := environmentPieces(t)
	template, binding, source := oneOf(t, all, "TriggerTemplate"), oneOf(t, all, "TriggerBinding"), oneOf(t, all, "CDEventSource")
	run := at[[]any](t, template.Object, "spec", "resourcetemplates")[0]
	if name := at[string](t, run, "metadata", "name"); name != "new-environment-$(tt.params.uid)" {
		t.Errorf("its name is %s", name)
	}
	pipeline := oneOf(t, all, "Pipeline")
	if at[string](t, run, "spec", "pipelineRef", "name") != pipeline.GetName() || at[string](t, run, "spec", "taskRunTemplate", "serviceAccountName") != "new-environment" {
		t.Errorf("%v", run)
	}
	var wanted []string
	for _, p := range template.list(t, "spec", "params") {
		wanted = append(wanted, at[string](t, p, "name"))
		if p["default"] != nil {
			t.Errorf("%s has a default, so an event without it would start a wrong run", p["name"])
		}
	}
	slices.Sort(wanted)
	if got := slices.Sorted(maps.Keys(pairs(t, at[map[string]any](t, binding.Object, "spec")["params"]))); !slices.Equal(got, wanted) {
		t.Errorf("the binding sets %v, the template needs %v", got, wanted)
	}
	const created = "dev.cdevents.environment.created."
	if text := fmt.Sprint(oneOf(t, all, "EventListener").Object); !strings.Contains(text, "startsWith('"+created+"')") || !strings.Contains(text, "== 'cluster-api'") {
		t.Errorf("it accepts other events: %s", text)
	}
	if filters := source.list(t, "spec", "filters"); len(filters) != 1 || at[string](t, filters[0], "prefix", "type") != created {
		t.Errorf("the source sends %v", filters)
	}
}

func TestEnvironmentFlowPipeline(t *testing.T) {
	t.Parallel()
	pipeline := oneOf(t, environmentPieces(t), "Pipeline")
	tasks := pipeline.list(t, "spec", "tasks")
	if len(tasks) != 1 {
		t.Fatalf("%d tasks", len(tasks))
	}
	steps := at[[]any](t, tasks[0], "taskSpec", "steps")
	if len(steps) != 1 {
		t.Fatalf("%d steps", len(steps))
	}
	step := at[map[string]any](t, steps[0])
	checkStep(t, step, "cmd/nodes")
	for _, declared := range pipeline.list(t, "spec", "results") {
		name := at[string](t, declared, "name")
		if at[string](t, declared, "value") != "$(tasks.nodes.results."+name+")" || !strings.Contains(fmt.Sprint(step["env"]), "$(results."+name+".path)") {
			t.Errorf("nothing writes result %s", name)
		}
	}
}

// One account starts runs, and the other reads one Secret.
func TestEnvironmentFlowPermissions(t *testing.T) {
	t.Parallel()
	for _, p := range environmentPieces(t) {
		switch p.GetKind() {
		case "ClusterRole", "ClusterRoleBinding":
			t.Errorf("%s: %s reaches beyond the namespace", p.file, p.GetName())
		case "Role":
			text := fmt.Sprint(p.Object["rules"])
			if strings.Contains(text, "*") || strings.Contains(text, "impersonate") {
				t.Errorf("%s grants %s", p.GetName(), text)
			}
			rules := p.list(t, "rules")
			reads := p.GetName() == "new-environment"
			if reads != strings.Contains(text, "secrets") || reads == strings.Contains(text, "create") {
				t.Errorf("%s grants %s", p.GetName(), text)
			}
			if reads && (len(rules) != 1 || fmt.Sprint(rules[0]["resourceNames"], rules[0]["verbs"]) != "[prod-kubeconfig] [get]") {
				t.Errorf("%s grants %s", p.GetName(), text)
			}
		}
	}
}
