// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Permissions on CustomRuns only allow reading them and writing their status, and no installation
// grants them by default.
func TestCustomRunsAreOptIn(t *testing.T) {
	t.Parallel()
	var rules []string
	for _, m := range decode(t, "tekton/200-customruns.yaml") {
		switch o := m.object.(type) {
		case *rbacv1.ClusterRole:
			for _, r := range o.Rules {
				rules = append(rules, fmt.Sprint(r.Verbs, " of ", r.APIGroups, " ", r.Resources))
			}
		case *rbacv1.ClusterRoleBinding:
			if o.RoleRef.Name != "knative-cdevents-customruns" || !binds(t, o.Name, "controller", o.Subjects) {
				t.Errorf("%s binds %s to %v", o.Name, o.RoleRef.Name, o.Subjects)
			}
		default:
			t.Errorf("%s holds a %T", m.file, o)
		}
	}
	if got, want := fmt.Sprint(rules), "[[get list watch] of [tekton.dev] [customruns] [update] of [tekton.dev] [customruns/status]]"; got != want {
		t.Errorf("the permissions are %s, want %s", got, want)
	}
	everywhere, own := rulesOf(t, "controller")
	for _, rule := range append(everywhere, own...) {
		for _, group := range rule.APIGroups {
			if group == "tekton.dev" {
				t.Errorf("an installation grants %v", rule)
			}
		}
	}
}
