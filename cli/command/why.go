// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knative-cdevents/knative-cdevents/api/plural"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/advice"
	"github.com/knative-cdevents/knative-cdevents/cli/report"
	"github.com/knative-cdevents/knative-cdevents/cli/screen"
)

func (e *env) why() *cobra.Command {
	var s choice
	c := &cobra.Command{
		Use:   "why [SOURCE | SERVICE | GATE]",
		Short: "Explain why a source does not deliver or a gate does not decide, and what to do",
		Long: "Says what is wrong with the source, Service or gate of that name, and one thing to do about it.\n" +
			"Without a name, it looks at all of the namespace, and shows only what is wrong.\n" +
			"To choose among several of the same name, write source/NAME, service/NAME or gate/NAME.",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: e.completeAll,
	}
	s.addAll(c)
	s.addSelector(c)
	s.addWatch(c)
	o := addOutput(c, formatName)
	diagnosis := func(d *report.Diagnosis, namespace string, all bool) answer {
		return answer{kind: "Diagnosis", value: d, names: findingNames(d), show: func() { e.showDiagnosis(d, namespace, all) }}
	}
	c.RunE = e.answers(o, &s, func(ctx context.Context, r *report.Reporter, ns string, args []string) (answer, error) {
		named := len(args) > 0
		if named && (s.all || s.selector != "") {
			return answer{}, misused("a name and --all-namespaces or --selector do not go together; use -n")
		}
		d, err := r.Diagnose(ctx, ns, args)
		if err != nil {
			return answer{}, err
		}
		out := diagnosis(d, ns, named)
		out.news = func(before any) (answer, bool) {
			was, _ := before.(*report.Diagnosis)
			news, has := d.News(was)
			return diagnosis(news, ns, true), has
		}
		return out, nil
	})
	return c
}

// findingNames returns the objects with which something is wrong, each once.
func findingNames(d *report.Diagnosis) []string {
	var out []string
	for _, f := range d.Findings {
		if f.State == advice.Works {
			continue
		}
		name := strings.ToLower(f.Kind) + "/" + f.Name
		switch f.Kind {
		case "Service":
			name = serviceName(f.Name)
		case v1alpha1.SourceKind.Kind:
			name = sourceName(f.Name)
		case v1alpha1.GateKind.Kind:
			name = gateName(f.Name)
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func (e *env) showDiagnosis(d *report.Diagnosis, namespace string, named bool) {
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
		e.note("There is nothing to look at: no sources, gates or Services%s", in(namespace))
	case shown == 0:
		e.Screen.Printf("Nothing is wrong. Looked at: sources, gates and Services, %d in all.\n", works)
	case works > 0:
		e.Screen.Printf("\nNothing is wrong with %s.\n", plural.Of(works, "other", "others"))
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
	style := map[advice.State]screen.Style{
		advice.Failed: screen.Bad, advice.Broken: screen.Bad, advice.Undecided: screen.Unsure,
		advice.Waiting: screen.Unsure, advice.Lost: screen.Unsure, advice.Works: screen.Good,
	}[f.State]
	e.Screen.Wrapped(screen.Cell{Text: fmt.Sprintf("%s%-10s ", indent, f.State), Style: style}, f.What)
	switch {
	case f.Message != "" && f.Reason != "":
		e.Screen.Wrapped(screen.Text(indent+"why        "), f.Reason+": "+f.Message)
	case f.Message != "" || f.Reason != "":
		e.Screen.Wrapped(screen.Text(indent+"why        "), f.Reason+f.Message)
	}
	if f.Template != "" {
		e.Screen.Wrapped(screen.Text(indent+"template   "), f.Template)
	}
	if f.Do != "" {
		e.Screen.Wrapped(screen.Text(indent+"do         "), f.Do)
	}
}
