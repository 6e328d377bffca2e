// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/knative-cdevents/knative-cdevents/cli/reader"
	"github.com/knative-cdevents/knative-cdevents/cli/screen"
	"github.com/knative-cdevents/knative-cdevents/cli/words"
)

// outputVersion is the apiVersion of what -o json and yaml print. Fields are only ever added to it.
const outputVersion = "cli.knative-cdevents.dev/v1alpha1"

// output is the flag -o.
type output struct {
	format   string
	wide     bool
	template *genericclioptions.KubeTemplatePrintFlags
}

// addOutput adds the flag to a command. wide says whether -o wide means something.
func addOutput(c *cobra.Command, wide bool) *output {
	o := &output{template: genericclioptions.NewKubeTemplatePrintFlags(), wide: wide}
	formats := o.formats()
	c.Flags().StringVarP(&o.format, "output", "o", "", "Output format. One of: "+strings.Join(formats, ", "))
	must(c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)))
	return o
}

func (o *output) formats() []string {
	out := append((&genericclioptions.JSONYamlPrintFlags{}).AllowedFormats(), "jsonpath=…", "go-template=…")
	if o.wide {
		out = append(out, "wide")
	}
	return out
}

// isWide reports whether -o wide was chosen.
func (o *output) isWide() bool { return o.wide && o.format == "wide" }

// printer returns what prints objects for programs, or nil for people.
func (o *output) printer() (printers.ResourcePrinter, error) {
	if o.format == "" || o.isWide() {
		return nil, nil //nolint:nilnil // people
	}
	p, err := genericclioptions.NewJSONYamlPrintFlags().ToPrinter(o.format)
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		p, err = o.template.ToPrinter(o.format)
	}
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		return nil, fmt.Errorf("-o %s is not known; use one of %s", o.format, strings.Join(o.formats(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("-o %s: %w", o.format, err)
	}
	return p, nil
}

// answer is what a command has read.
type answer struct {
	// kind and value are for programs.
	kind  string
	value any
	// show prints it for people.
	show func()
}

// answers returns what cobra runs for a command that reads once and prints. The namespace is empty if all is set.
func (e *env) answers(
	o *output,
	all *bool,
	read func(ctx context.Context, r *reader.Reader, namespace string, args []string) (answer, error),
) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		p, err := o.printer()
		if err != nil {
			return err
		}
		namespace, err := e.scope(*all)
		if err != nil {
			return err
		}
		r, err := e.reader()
		if err != nil {
			return err
		}
		a, err := read(c.Context(), r, namespace, args)
		if err != nil {
			return err
		}
		if p != nil {
			return e.print(p, a.kind, a.value)
		}
		a.show()
		return e.Screen.Err()
	}
}

// print writes a value for programs, as an object of that kind.
func (e *env) print(p printers.ResourcePrinter, kind string, value any) error {
	shown, err := screen.Values(value)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(shown)
	if err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	object := &unstructured.Unstructured{Object: fields}
	object.SetAPIVersion(outputVersion)
	object.SetKind(kind)
	if err := p.PrintObj(object, e.Out); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// age formats how long ago something was, as kubectl does.
func (e *env) age(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return words.Short(e.Now().Sub(at))
}

// stamp formats the time of a line that is on its own, as those that arrive one after the other.
func (e *env) stamp(at time.Time) string { return words.Stamps(e.Now(), at)(at) }

// ago formats how long ago something was, in a sentence.
func (e *env) ago(at time.Time) string { return words.Span(e.Now().Sub(at)) + " ago" }

// must is for mistakes of the program itself.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
