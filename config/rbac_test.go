// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

var reading = []string{"get", "list", "watch"}

// rulesOf collects what a ServiceAccount may do in the cluster, and in the controller's namespace,
// through its bindings and their aggregation.
func rulesOf(t *testing.T, account string) (everywhere, own []rbacv1.PolicyRule) {
	t.Helper()
	roles := map[string]*rbacv1.ClusterRole{}
	for _, r := range of[*rbacv1.ClusterRole](t) {
		roles[r.Name] = r
	}
	for _, b := range of[*rbacv1.ClusterRoleBinding](t) {
		if !binds(t, b.Name, account, b.Subjects) {
			continue
		}
		role := roles[b.RoleRef.Name]
		if role == nil {
			t.Fatalf("%s binds %s, which is not shipped", b.Name, b.RoleRef.Name)
		}
		everywhere = append(everywhere, role.Rules...)
		if role.AggregationRule == nil {
			continue
		}
		for _, selector := range role.AggregationRule.ClusterRoleSelectors {
			for label, value := range selector.MatchLabels {
				for _, r := range roles {
					if r.Labels[label] == value {
						everywhere = append(everywhere, r.Rules...)
					}
				}
			}
		}
	}
	for _, b := range of[*rbacv1.RoleBinding](t) {
		if !binds(t, b.Name, account, b.Subjects) {
			continue
		}
		for _, r := range of[*rbacv1.Role](t) {
			if r.Name == b.RoleRef.Name {
				own = append(own, r.Rules...)
			}
		}
	}
	return everywhere, own
}

// binds reports whether a binding is for this account. Every binding is for one of our accounts.
func binds(t *testing.T, name, account string, subjects []rbacv1.Subject) bool {
	t.Helper()
	if len(subjects) != 1 || subjects[0].Kind != "ServiceAccount" || subjects[0].Namespace != namespace || deployments(t)[subjects[0].Name] == nil {
		t.Fatalf("%s binds to %v", name, subjects)
	}
	return subjects[0].Name == account
}

// The webhook writes its configurations and its certificate, and nothing else.
func TestWebhookWritesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	everywhere, own := rulesOf(t, "webhook")
	for _, rule := range everywhere {
		checkExplicit(t, rule)
		if len(rule.ResourceNames) == 0 && slices.ContainsFunc(rule.Verbs, func(verb string) bool { return !slices.Contains(reading, verb) }) {
			t.Errorf("%s of any %s", rule.Verbs, rule.Resources)
		}
	}
	for _, rule := range own {
		checkExplicit(t, rule)
		if slices.Contains(rule.Resources, "secrets") && !slices.Equal(rule.Verbs, reading) && !slices.Equal(rule.ResourceNames, []string{"webhook-certs"}) {
			t.Errorf("%s of any Secret", rule.Verbs)
		}
	}
}

func TestUsersObjectsAreReadOnly(t *testing.T) {
	t.Parallel()
	everywhere, own := rulesOf(t, "controller")
	if len(everywhere) < 8 || len(own) < 3 {
		t.Fatalf("found only %d and %d rules", len(everywhere), len(own))
	}
	for _, rule := range everywhere {
		checkExplicit(t, rule)
		if slices.Equal(rule.APIGroups, []string{"knative-cdevents.dev"}) && slices.Equal(rule.Resources, []string{"cdeventsources/status", "canarygates/status"}) {
			continue // all that the controller writes outside its namespace
		}
		if slices.Equal(rule.Verbs, []string{"create"}) && reviews(rule) {
			continue // reviews, which are not stored
		}
		for _, verb := range rule.Verbs {
			if !slices.Contains(reading, verb) {
				t.Errorf("%s of %s %s everywhere", verb, rule.APIGroups, rule.Resources)
			}
		}
		if slices.Contains(rule.Resources, "secrets") {
			t.Error("secrets in all namespaces are readable")
		}
	}
	for _, rule := range own {
		checkExplicit(t, rule)
		if slices.Contains(rule.Resources, "secrets") || slices.Contains(rule.Resources, "pods") {
			t.Errorf("%s in its own namespace", rule.Resources)
		}
	}
}

// Unused permissions are not granted: deleting collections, patching anything but Events, and
// reading resources that are not needed.
func TestUnusedPermissionsAreNotGranted(t *testing.T) {
	t.Parallel()
	for account, write := range map[string]map[string]string{
		"controller": {
			"cdeventsources/status": "update", "canarygates/status": "update", "leases": "create get update", "events": "create patch",
			"cdeventsubjects": "create delete get list update watch", "cdeventbaselines": "create get update",
			"canarygateruns":  "create delete get list update",
			"shardplacements": "create delete get list update watch",
		},
		"webhook": {
			"leases": "create get update", "events": "create patch", "secrets": "update", "validatingwebhookconfigurations": "update", "namespaces/finalizers": "update",
			"namespaces": "get", "cdeventsources": "list",
		},
	} {
		everywhere, own := rulesOf(t, account)
		for _, rule := range slices.Concat(everywhere, own) {
			for _, resource := range rule.Resources {
				verbs := strings.Join(rule.Verbs, " ")
				switch {
				case slices.Equal(rule.Verbs, reading), reviews(rule):
				case resource == "replicasets" || resource == "deployments":
					if verbs != "get" {
						t.Errorf("%s may %s %s", account, verbs, resource)
					}
				case verbs != write[resource]:
					t.Errorf("%s may %s %s, but uses %q", account, verbs, resource, write[resource])
				}
				if resource == "configurations" {
					t.Errorf("%s reads Configurations, which no event needs", account)
				}
			}
		}
	}
}

// reviews reports whether a rule is for authentication and authorization reviews.
func reviews(rule rbacv1.PolicyRule) bool {
	switch rule.APIGroups[0] {
	case "authentication.k8s.io":
		return slices.Equal(rule.Resources, []string{"tokenreviews"})
	case "authorization.k8s.io":
		return slices.Equal(rule.Resources, []string{"subjectaccessreviews"})
	}
	return false
}

// Roles for secrets are bound by the secrets' owners, not by us, and grant only what they document.
func TestRolesBoundByOthers(t *testing.T) {
	t.Parallel()
	grants := map[string]string{
		"knative-cdevents-sink-secrets": "[get] of [] [secrets]",
		"knative-cdevents-identities":   "[get create] of [] [serviceaccounts], [create] of [] [serviceaccounts/token]",
	}
	for _, m := range slices.Concat(load(t), decode(t, "optional/*.yaml")) {
		switch o := m.object.(type) {
		case *rbacv1.ClusterRole:
			expected, ours := grants[o.Name]
			if !ours {
				if strings.HasPrefix(m.file, "optional") {
					t.Errorf("%s: unexpected %s", m.file, o.Name)
				}
				continue
			}
			delete(grants, o.Name)
			var rules []string
			for _, r := range o.Rules {
				rules = append(rules, fmt.Sprint(r.Verbs, " of ", r.APIGroups, " ", r.Resources))
			}
			if got := strings.Join(rules, ", "); got != expected {
				t.Errorf("%s grants %s", o.Name, got)
			}
			if o.AggregationRule != nil || len(o.Labels) != 2 {
				t.Errorf("%s is aggregated: %v", o.Name, o.Labels)
			}
		case *rbacv1.ClusterRoleBinding:
			if _, ours := grants[o.RoleRef.Name]; ours || o.RoleRef.Name == "knative-cdevents-sink-secrets" {
				t.Errorf("%s binds %s", m.file, o.RoleRef.Name)
			}
		case *rbacv1.RoleBinding:
			if o.RoleRef.Kind != "Role" {
				t.Errorf("%s binds %s", m.file, o.RoleRef.Name)
			}
		}
	}
	if len(grants) > 0 {
		t.Errorf("not shipped: %v", grants)
	}
}

// checkExplicit rejects wildcards, whose meaning may grow.
func checkExplicit(t *testing.T, rule rbacv1.PolicyRule) {
	t.Helper()
	if slices.Contains(slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs), "*") {
		t.Errorf("%v has a wildcard", rule)
	}
}

func TestRolesForUsers(t *testing.T) {
	t.Parallel()
	for _, role := range of[*rbacv1.ClusterRole](t) {
		switch {
		case role.Labels["rbac.authorization.k8s.io/aggregate-to-edit"] == "true":
			for _, rule := range role.Rules {
				if !slices.Equal(rule.APIGroups, []string{"knative-cdevents.dev"}) || !slices.Equal(rule.Resources, []string{"cdeventsources", "canarygates"}) {
					t.Errorf("%s grants users %v", role.Name, rule)
				}
			}
		case role.Labels["rbac.authorization.k8s.io/aggregate-to-view"] == "true",
			role.Labels["duck.knative.dev/source"] == "true":
			for _, rule := range role.Rules {
				for _, verb := range rule.Verbs {
					if !slices.Contains(reading, verb) {
						t.Errorf("%s allows others to %s", role.Name, verb)
					}
				}
				viewers := role.Labels["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
				if viewers && !slices.Equal(rule.Resources, []string{"cdeventsources", "canarygates", "clustercanarygatetemplates"}) {
					t.Errorf("%s exposes %s", role.Name, rule.Resources)
				}
			}
		}
		if role.AggregationRule != nil && role.Rules != nil {
			t.Errorf("applying %s again would remove the aggregated rules", role.Name)
		}
	}
}
