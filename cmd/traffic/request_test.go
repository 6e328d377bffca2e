// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// environment is the Task's environment with the required params only.
func environment(change map[string]string) func(string) string {
	env := map[string]string{"NAMESPACE": "shop", "SERVICE": "cart", "CANARY": "cart-2", "PERCENT": "10", "BASELINE": "", "FROM": "", "ALLOW_OLDER": "", "TIMEOUT": ""}
	for name, value := range change {
		env[name] = value
	}
	return func(name string) string { return env[name] }
}

func TestRead(t *testing.T) {
	t.Parallel()
	r, err := read(environment(nil))
	if err != nil || r.service != "cart" || r.percent != 10 || r.timeout != defaultTimeout || !r.allows(33) {
		t.Errorf("%+v %v", r, err)
	}
	r, err = read(environment(map[string]string{"FROM": "0, 10", "ALLOW_OLDER": "true", "TIMEOUT": "5s", "BASELINE": "cart-1"}))
	if err != nil || !slices.Equal(r.from, []int64{0, 10}) || !r.older || r.timeout != 5*time.Second || r.allows(33) || !r.allows(10) {
		t.Errorf("%+v %v", r, err)
	}
}

func TestWrongParams(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, want string }{
		{"PERCENT", "", "percent is"},
		{"PERCENT", "10%", "a whole number from 0 to 100"},
		{"PERCENT", "101", "a whole number from 0 to 100"},
		{"PERCENT", "-1", "a whole number from 0 to 100"},
		{"FROM", "0,ten", `from is "ten"`},
		{"SERVICE", "", "service is"},
		{"SERVICE", "../cart", "service is"},
		{"CANARY", "$(params.canary)", "canary is"},
		{"BASELINE", "Cart", "baseline is"},
		{"BASELINE", "cart-2", "two Revisions"},
		{"ALLOW_OLDER", "perhaps", "true or false"},
		{"TIMEOUT", "90", "a duration"},
		{"TIMEOUT", "-1s", "a duration"},
	} {
		if _, err := read(environment(map[string]string{c.name: c.value})); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v, want %q", c.name, c.value, err, c.want)
		}
	}
	_, err := read(environment(map[string]string{"PERCENT": "x", "TIMEOUT": "y"}))
	if err == nil || !strings.Contains(err.Error(), "percent") || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("the error does not report both problems: %v", err)
	}
}

// Tekton fails a TaskRun, and drops all of its results, if they have more than 4 KiB together. A rollback needs the
// baseline.
func TestResultsFitTekton(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out := results{func(name string) string { return filepath.Join(dir, name) }}
	long := "https://ci:s3cret@registry.example.com refused: " + strings.Repeat("\x00<", 50_000)
	for name, value := range map[string]string{message: long, traffic: strings.Repeat("r", 253) + "=90," + strings.Repeat("s", 253) + "=10", baseline: strings.Repeat("r", 253)} {
		must(t, out.write(name, value))
	}
	var all []map[string]any
	for _, name := range []string{message, traffic, baseline} {
		data, err := os.ReadFile(filepath.Join(dir, "RESULT_"+name))
		must(t, err)
		if strings.Contains(string(data), "s3cret") {
			t.Errorf("result %s has a credential: %.100q", name, data)
		}
		all = append(all, map[string]any{"key": name, "value": string(data), "type": 1}) // as Tekton writes them
	}
	whole, err := json.Marshal(all)
	must(t, err)
	if len(whole) > 3500 { // Tekton adds the time at which the step started, and its own
		t.Errorf("the results have %d bytes", len(whole))
	}
}
