// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/advice"
	"github.com/knative-cdevents/knative-cdevents/cli/reader"
)

// Diagnosis is what is wrong, and what to do.
type Diagnosis struct {
	Findings []advice.Finding `json:"findings"`
	Notes    []string         `json:"notes,omitempty"`
}

// objects are what why looks at.
type objects struct {
	services []servingv1.Service
	sources  []v1alpha1.CDEventSource
	gates    []v1alpha1.CanaryGate
}

// judged returns the Service of a gate; nil if it is not there, or may not be read.
func (o objects) judged(g *v1alpha1.CanaryGate) *servingv1.Service {
	i := slices.IndexFunc(
		o.services,
		func(s servingv1.Service) bool { return s.Namespace == g.Namespace && s.Name == g.Spec.Service },
	)
	if i < 0 {
		return nil
	}
	return &o.services[i]
}

// Diagnose looks at everything in a namespace, or at the objects of one name.
func (r *Reporter) Diagnose(ctx context.Context, namespace string, names []string) (*Diagnosis, error) {
	d := &Diagnosis{Findings: []advice.Finding{}}
	var o objects
	var errs [3]error
	o.sources, errs[0] = r.Sources(ctx, namespace)
	o.gates, errs[1] = r.Gates(ctx, namespace)
	o.services, errs[2] = r.Services(ctx, namespace)
	for i, what := range []string{"sources", "gates", "Services"} {
		switch {
		case errs[i] == nil:
		case i < 2 && errors.Is(errs[i], reader.ErrNotInstalled),
			!errors.Is(errs[i], reader.ErrForbidden) && !errors.Is(errs[i], reader.ErrNotInstalled):
			return nil, errs[i]
		default:
			d.Notes = append(d.Notes, what+" are not looked at: "+errs[i].Error())
		}
	}
	if len(d.Notes) == len(errs) {
		return nil, errs[0]
	}
	var err error
	if len(names) == 0 {
		err = r.everything(ctx, namespace, o, d)
	} else {
		err = r.named(ctx, namespace, names[0], o, d)
	}
	slices.SortStableFunc(d.Findings, func(a, b advice.Finding) int { return severity(a.State) - severity(b.State) })
	return d, err
}

func severity(s advice.State) int {
	return slices.Index(advice.States(), s)
}

// everything looks at all objects.
func (r *Reporter) everything(ctx context.Context, namespace string, o objects, d *Diagnosis) error {
	for i := range o.sources {
		if r.selected(o.sources[i].Labels) {
			d.Findings = append(d.Findings, r.Clock.Source(&o.sources[i]))
		}
	}
	for i := range o.gates {
		of := o.judged(&o.gates[i])
		if !r.selects() || of != nil && r.selected(of.Labels) {
			d.Findings = append(d.Findings, r.Clock.Gate(&o.gates[i], of))
		}
	}
	shown := map[types.UID]bool{}
	for i := range o.services {
		if r.selected(o.services[i].Labels) {
			shown[o.services[i].UID] = true
			d.Findings = append(d.Findings, advice.Ready(&o.services[i]))
		}
	}
	if r.selects() {
		return r.entries(ctx, namespace, d, func(s *v1alpha1.CDEventSubject) bool { return shown[s.Spec.UID] })
	}
	if err := r.baselines(ctx, namespace, d); err != nil {
		return err
	}
	if err := r.doorbell(ctx, namespace, d); err != nil {
		return err
	}
	return r.entries(ctx, namespace, d, func(*v1alpha1.CDEventSubject) bool { return true })
}

// entries looks at the ledger.
func (r *Reporter) entries(ctx context.Context, namespace string, d *Diagnosis,
	about func(*v1alpha1.CDEventSubject) bool,
) error {
	entries, err := r.Ledger(ctx, namespace)
	if err != nil && !errors.Is(err, reader.ErrForbidden) {
		return err
	}
	for i := range entries {
		if about(&entries[i]) {
			d.Findings = append(d.Findings, advice.Entry(&entries[i])...)
		}
	}
	return nil
}

// baselines looks at the kinds of environments. They concern all namespaces.
func (r *Reporter) baselines(ctx context.Context, namespace string, d *Diagnosis) error {
	if namespace != "" {
		return nil
	}
	all, err := r.Baselines(ctx)
	if err != nil && !errors.Is(err, reader.ErrForbidden) {
		return err
	}
	for i := range all {
		d.Findings = append(d.Findings, advice.Baseline(&all[i])...)
	}
	return nil
}

// doorbell looks at the doorbell of the serverless mode. Whether it works is shown with all namespaces only.
func (r *Reporter) doorbell(ctx context.Context, namespace string, d *Diagnosis) error {
	s, err := r.Serverless(ctx)
	if errors.Is(err, reader.ErrForbidden) || err == nil && s == nil {
		return nil
	}
	if err != nil {
		return err
	}
	m := modeOf(s, nil, false, r.Clock.Now)
	seen, rang := ptr.Deref(m.DoorbellSeen, time.Time{}), ptr.Deref(m.LastRing, time.Time{})
	f := r.Clock.Doorbell(m.Doorbell, seen, rang, m.Controller)
	if namespace == "" || f.State != advice.Works {
		d.Findings = append(d.Findings, f)
	}
	return nil
}

// named looks at the objects of one name, and at what a Service depends on.
func (r *Reporter) named(ctx context.Context, namespace, name string, o objects, d *Diagnosis) error {
	kind, name, has := divided(name)
	is := func(words ...string) bool { return !has || slices.Contains(words, kind) }
	if has && !is(sourceKinds...) && !is(gateKinds...) && !is(ServiceKinds...) {
		return unknownKind(kind, "source, service and gate")
	}
	found, exists := false, false
	if is(ServiceKinds...) {
		for i := range o.services {
			if o.services[i].Name != name {
				continue
			}
			findings, err := r.service(ctx, &o.services[i], o, d)
			if err != nil {
				return err
			}
			found, exists, d.Findings = true, true, append(d.Findings, findings...)
		}
	}
	add := func(f advice.Finding) {
		found = true
		if !slices.Contains(d.Findings, f) {
			d.Findings = append(d.Findings, f)
		}
	}
	for i := range o.sources {
		if o.sources[i].Name == name && is(sourceKinds...) {
			add(r.Clock.Source(&o.sources[i]))
		}
	}
	for i := range o.gates {
		if o.gates[i].Name == name && is(gateKinds...) {
			add(r.Clock.Gate(&o.gates[i], o.judged(&o.gates[i])))
		}
	}
	// A gate often has the name of its Service.
	judged := slices.ContainsFunc(o.gates, func(g v1alpha1.CanaryGate) bool { return g.Spec.Service == name })
	if !exists && (judged || !found) && is(ServiceKinds...) {
		deleted, err := r.deleted(ctx, namespace, name, o, d)
		if err != nil {
			return err
		}
		for _, f := range deleted {
			add(f)
		}
	}
	if !found {
		message := fmt.Sprintf("there is no source, Service or gate %q in namespace %s", name, namespace)
		if has {
			message = fmt.Sprintf("there is no %s %q in namespace %s", kind, name, namespace)
		}
		return &reader.Error{Kind: reader.ErrNotFound, Message: strings.Join(append([]string{message}, d.Notes...), "; ")}
	}
	return nil
}

// deleted looks at a Service that was deleted, at its gates, and at the sources that do not have its last events yet.
// It returns nothing if the ledger has no such Service, or may not be read.
func (r *Reporter) deleted(
	ctx context.Context, namespace, name string, o objects, d *Diagnosis,
) ([]advice.Finding, error) {
	entries, err := r.Ledger(ctx, namespace)
	if errors.Is(err, reader.ErrForbidden) {
		d.Notes = append(d.Notes, "the ledger is not looked at: "+err.Error())
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []advice.Finding
	names, owed := r.SourceNames(ctx, namespace, o.sources), map[types.UID]bool{}
	pending := func(source types.UID) string {
		owed[source] = true
		return names(source)
	}
	for i := range entries {
		s := &entries[i]
		if !IsService(s) || s.Spec.Name != name || !s.Status.Removed {
			continue
		}
		f := advice.Finding{
			Kind: "Service", Namespace: namespace, Name: name, State: advice.Waiting,
			What: "it is gone; its entry in the ledger stays until its last events are delivered",
			Do:   fmt.Sprintf("To see which events these are: kubectl cdevents history %s -n %s", name, namespace),
		}
		var parts []string
		for _, p := range ledgerOf(s, pending).PendingFor {
			parts = append(parts, fmt.Sprintf("%d to %s", p.Events, p.Source))
		}
		if len(parts) > 0 {
			f.What += ": " + strings.Join(parts, ", ")
		}
		out = append(append(out, f), advice.Entry(s)...)
	}
	if len(out) == 0 {
		return nil, nil
	}
	sources := o.sources
	if namespace != r.Clock.System {
		operators, _ := r.Sources(ctx, r.Clock.System) // without a right to read them, they are not looked at
		sources = slices.Concat(sources, operators)
	}
	for i := range sources {
		if owed[sources[i].UID] {
			out = append(out, r.Clock.Source(&sources[i]))
		}
	}
	for i := range o.gates {
		if g := &o.gates[i]; g.Spec.Service == name {
			out = append(out, r.Clock.Gate(g, nil))
		}
	}
	return out, nil
}

var (
	sourceKinds = []string{"source", "sources", "cdeventsource", "cdeventsources"}
	gateKinds   = []string{"gate", "gates", "canarygate", "canarygates", "cgate"}
)

// divided divides KIND/NAME. The kind may be as kubectl's -o name writes it, with its group.
func divided(text string) (kind, name string, has bool) {
	kind, name, has = strings.Cut(text, "/")
	if !has {
		return "", text, false
	}
	kind = strings.ToLower(kind)
	for _, group := range []string{servingv1.SchemeGroupVersion.Group, v1alpha1.GroupName} {
		kind = strings.TrimSuffix(kind, "."+group)
	}
	return kind, name, true
}

// GateName is the name of a gate that may be written as gate/NAME.
func GateName(text string) string {
	if kind, name, has := divided(text); has && slices.Contains(gateKinds, kind) {
		return name
	}
	return text
}

func unknownKind(kind, known string) error {
	return &reader.Error{Kind: reader.ErrUnknownKind, Message: fmt.Sprintf("%q is none of %s", kind, known)}
}

// service looks at a Service with its sources, its gates and its entry in the ledger.
func (r *Reporter) service(
	ctx context.Context,
	s *servingv1.Service,
	o objects,
	d *Diagnosis,
) ([]advice.Finding, error) {
	about := advice.About{Service: s, Sources: o.sources}
	for _, g := range o.gates {
		if g.Spec.Service == s.Name {
			about.Gates = append(about.Gates, g)
		}
	}
	var err error
	if about.Entry, err = r.Entry(ctx, "Service", s.UID); err == nil {
		about.Plan, err = r.Placement(ctx, s.UID)
	}
	if err != nil && !errors.Is(err, reader.ErrForbidden) {
		return nil, err
	}
	if err != nil {
		d.Notes = append(d.Notes, "the ledger is not looked at: "+err.Error())
	}
	names := r.SourceNames(ctx, s.Namespace, o.sources)
	owed := r.Clock.Owed(about.Entry, func(a *v1alpha1.Attempt) string { return names(a.Source) })
	return append(r.Clock.Service(about), owed...), nil
}
