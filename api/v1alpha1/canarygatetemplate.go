// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"knative.dev/pkg/apis"
)

// Groups returns the names of the groups that the policy states.
func (p *GatePolicy) Groups() (names []string) {
	p.each(func(name string, _ int, stated reflect.Value) {
		if !stated.IsZero() {
			names = append(names, name)
		}
	})
	return names
}

// AllGroups returns the names of all groups that a policy can state.
func (p *GatePolicy) AllGroups() (names []string) {
	p.each(func(name string, _ int, _ reflect.Value) { names = append(names, name) })
	return names
}

// each calls a function for each group of the policy, in the order of its fields.
func (p *GatePolicy) each(f func(name string, field int, group reflect.Value)) {
	of := reflect.ValueOf(p).Elem()
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Type().Field(i).Tag.Get("json"), ",")
		f(name, i, of.Field(i))
	}
}

// With returns the spec with each group that the template states in place of its own, and what came of it.
// Neither is changed.
func (s *CanaryGateSpec) With(ctx context.Context, t *ClusterCanaryGateTemplate) (*CanaryGateSpec, *GateTemplateUse) {
	out, use := s.DeepCopy(), &GateTemplateUse{Name: t.Name, Generation: t.Generation}
	// The API server stores the defaults of a gate, so only what differs from them was meant.
	var standard, own, theirs CanaryGateSpec
	own.GatePolicy, theirs.GatePolicy = *s.GatePolicy.DeepCopy(), *t.Spec.GatePolicy.DeepCopy()
	for _, each := range []*CanaryGateSpec{&standard, &own, &theirs} {
		each.SetDefaults(ctx)
	}
	group := func(of *CanaryGateSpec, field int) reflect.Value {
		return reflect.ValueOf(&of.GatePolicy).Elem().Field(field)
	}
	t.Spec.DeepCopy().each(func(name string, field int, stated reflect.Value) {
		if stated.IsZero() {
			return
		}
		use.Groups = append(use.Groups, name)
		is := group(&own, field).Interface()
		if !equality.Semantic.DeepEqual(is, group(&standard, field).Interface()) &&
			!equality.Semantic.DeepEqual(is, group(&theirs, field).Interface()) {
			use.Replaced = append(use.Replaced, name)
		}
		group(out, field).Set(stated)
	})
	return out, use
}

// Validate returns what is wrong with the template, where, and what is allowed.
func (t *ClusterCanaryGateTemplate) Validate(ctx context.Context) *apis.FieldError {
	return t.Spec.validate(ctx).ViaField("spec").Also(unreadFields(t.Unread))
}
