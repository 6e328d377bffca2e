// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Filter is a filter of CloudEvents' Subscriptions API, as those of Knative's Trigger. It has exactly one field. The
// type of Eventing has the same fields, but comes with a client for all of Kubernetes.
type Filter struct {
	// all passes if all of these filters pass.
	All []Filter `json:"all,omitempty"`
	// any passes if at least one of these filters passes.
	Any []Filter `json:"any,omitempty"`
	// not passes if this filter does not pass.
	Not *Filter `json:"not,omitempty"`
	// exact passes if each of these attributes has exactly this value.
	Exact map[string]string `json:"exact,omitempty"`
	// prefix passes if the value of each of these attributes starts with this string.
	Prefix map[string]string `json:"prefix,omitempty"`
	// suffix passes if the value of each of these attributes ends with this string.
	Suffix map[string]string `json:"suffix,omitempty"`
	// cesql is an expression in CloudEvents SQL. It passes if it evaluates to true.
	CESQL string `json:"cesql,omitempty"`
}
