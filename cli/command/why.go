package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/advice"
	"github.com/knative-cdevents/knative-cdevents/cli/reader"
	"github.com/knative-cdevents/knative-cdevents/cli/screen"
)

// diagnosis is what why prints.
type diagnosis struct {
	Findings []advice.Finding `json:"findings"`
	Notes    []string         `json:"notes,omitempty"`
}

func (e *env) why() *cobra.Command {
	everywhere := false
	c := &cobra.Command{
		Use:   "why [SOURCE | SERVICE | GATE]",
		Short: "Say why a source does not deliver or a gate does not decide, and what to do",
		Long: "Says what is wrong with the source, Service or gate of that name, and one thing to do about it.\n" +
			"Without a name, it looks at all of the namespace, and shows only what is wrong.\n" +
			"To choose among several of the same name, write source/NAME, service/NAME or gate/NAME.",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: e.completeAll,
	}
	c.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "Look at all namespaces")
	o := addOutput(c, false)
	c.RunE = e.answers(o, &everywhere, func(ctx context.Context, r *reader.Reader, namespace string, args []string) (answer, error) {
		if everywhere && len(args) > 0 {
			return answer{}, fmt.Errorf("a name and --all-namespaces do not go together; use -n")
		}
		d, err := e.diagnose(ctx, r, namespace, args)
		return answer{"Diagnosis", d, func() { e.showDiagnosis(d, len(args) > 0) }}, err
	})
	return c
}

// objects are what why looks at.
type objects struct {
	services []servingv1.Service
	sources  []v1alpha1.CDEventSource
	gates    []v1alpha1.CanaryGate
}

func (e *env) diagnose(ctx context.Context, r *reader.Reader, namespace string, names []string) (*diagnosis, error) {
	d := &diagnosis{Findings: []advice.Finding{}}
	var o objects
	var errs [3]error
	o.sources, errs[0] = r.Sources(ctx, namespace)
	o.gates, errs[1] = r.Gates(ctx, namespace)
	o.services, errs[2] = r.Services(ctx, namespace)
	for i, what := range []string{"sources", "gates", "Services"} {
		switch {
		case errs[i] == nil:
		case i < 2 && errors.Is(errs[i], reader.ErrNotInstalled), !errors.Is(errs[i], reader.ErrForbidden) && !errors.Is(errs[i], reader.ErrNotInstalled):
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
		err = e.everything(ctx, r, namespace, o, d)
	} else {
		err = e.named(ctx, r, namespace, names[0], o, d)
	}
	slices.SortStableFunc(d.Findings, func(a, b advice.Finding) int { return severity(a.State) - severity(b.State) })
	return d, err
}

func severity(s advice.State) int {
	return slices.Index([]advice.State{advice.Broken, advice.Waiting, advice.Lost, advice.Works}, s)
}

// everything looks at all objects.
func (e *env) everything(ctx context.Context, r *reader.Reader, namespace string, o objects, d *diagnosis) error {
	for i := range o.sources {
		d.Findings = append(d.Findings, e.clock().Source(&o.sources[i]))
	}
	for i := range o.gates {
		d.Findings = append(d.Findings, e.clock().Gate(&o.gates[i]))
	}
	for i := range o.services {
		d.Findings = append(d.Findings, advice.Ready(&o.services[i]))
	}
	entries, err := r.Ledger(ctx, namespace)
	if err != nil && !errors.Is(err, reader.ErrForbidden) {
		return err
	}
	for i := range entries {
		d.Findings = append(d.Findings, advice.Entry(&entries[i])...)
	}
	return nil
}

// named looks at the objects of one name, and at what a Service depends on.
func (e *env) named(ctx context.Context, r *reader.Reader, namespace, name string, o objects, d *diagnosis) error {
	kind, rest, has := strings.Cut(name, "/")
	if kind = strings.ToLower(kind); has {
		name = rest
	}
	is := func(words ...string) bool { return !has || slices.Contains(words, kind) }
	if has && !is(sourceKinds...) && !is(gateKinds...) && !is(serviceKinds...) {
		return fmt.Errorf("%q is none of source, service and gate", kind)
	}
	found := false
	if is(serviceKinds...) {
		for i := range o.services {
			if o.services[i].Name != name {
				continue
			}
			findings, err := e.service(ctx, r, &o.services[i], o, d)
			if err != nil {
				return err
			}
			found, d.Findings = true, append(d.Findings, findings...)
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
			add(e.clock().Source(&o.sources[i]))
		}
	}
	for i := range o.gates {
		if o.gates[i].Name == name && is(gateKinds...) {
			add(e.clock().Gate(&o.gates[i]))
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

var (
	sourceKinds = []string{"source", "sources", "cdeventsource", "cdeventsources"}
	gateKinds   = []string{"gate", "gates", "canarygate", "canarygates", "cgate"}
)

// service looks at a Service with its sources, its gates and its entry in the ledger.
func (e *env) service(ctx context.Context, r *reader.Reader, s *servingv1.Service, o objects, d *diagnosis) ([]advice.Finding, error) {
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
	return e.clock().Service(about), nil
}

func (e *env) showDiagnosis(d *diagnosis, named bool) {
	shown, works := 0, 0
	for _, f := range d.Findings {
		if f.State == advice.Works && !named {
			works++
			continue
		}
		if shown > 0 {
			e.Screen.Printf("\n")
		}
		shown++
		e.Screen.Printf("%s\n", e.Screen.Paint(screen.Bold, fmt.Sprintf("%s %s", f.Kind, qualified(f))))
		e.showFinding(f, "  ")
	}
	switch {
	case shown == 0 && works == 0:
		e.note("There is nothing to look at: no sources, gates or Services")
	case shown == 0:
		e.Screen.Printf("Nothing is wrong. Looked at: sources, gates and Services, %d in all.\n", works)
	case works > 0:
		e.Screen.Printf("\nNothing is wrong with %d others.\n", works)
	}
	for _, n := range d.Notes {
		e.note("note: %s", n)
	}
}

func qualified(f advice.Finding) string {
	if f.Namespace == "" {
		return f.Name
	}
	return f.Namespace + "/" + f.Name
}

// showFinding shows what is wrong, why, and what to do.
func (e *env) showFinding(f advice.Finding, indent string) {
	style := map[advice.State]screen.Style{advice.Broken: screen.Bad, advice.Waiting: screen.Unsure, advice.Lost: screen.Unsure, advice.Works: screen.Good}[f.State]
	e.Screen.Wrapped(screen.Cell{Text: fmt.Sprintf("%s%-10s ", indent, f.State), Style: style}, f.What)
	switch {
	case f.Message != "" && f.Reason != "":
		e.Screen.Wrapped(screen.Text(indent+"why        "), f.Reason+": "+f.Message)
	case f.Message != "" || f.Reason != "":
		e.Screen.Wrapped(screen.Text(indent+"why        "), f.Reason+f.Message)
	}
	if f.Do != "" {
		e.Screen.Wrapped(screen.Text(indent+"do         "), f.Do)
	}
}
