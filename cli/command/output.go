// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/knative-cdevents/knative-cdevents/cli/reader"
	"github.com/knative-cdevents/knative-cdevents/cli/report"
	"github.com/knative-cdevents/knative-cdevents/cli/screen"
	"github.com/knative-cdevents/knative-cdevents/cli/words"
)

// outputVersion is the apiVersion of what -o json and yaml print. Fields are only ever added to it.
const outputVersion = "cli.knative-cdevents.dev/v1alpha1"

// output is the flag -o.
type output struct {
	format string
	// more are formats that only some commands have: wide and name.
	more []string
}

// template stands for what the user writes behind jsonpath=.
const template = "TEMPLATE"

const (
	formatWide = "wide"
	formatName = "name"
)

// addOutput adds the flag to a command.
func addOutput(c *cobra.Command, more ...string) *output {
	o := &output{more: more}
	formats := o.formats()
	c.Flags().StringVarP(&o.format, "output", "o", "", "Output format. One of: "+strings.Join(formats, ", "))
	must(c.RegisterFlagCompletionFunc("output", func(_ *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
		directive, out := cobra.ShellCompDirectiveNoFileComp, []string(nil)
		for _, f := range formats {
			f, needsMore := strings.CutSuffix(f, template)
			if !strings.HasPrefix(f, begin) {
				continue
			}
			if out = append(out, f); needsMore && strings.HasPrefix(begin, "jsonp") {
				directive |= cobra.ShellCompDirectiveNoSpace // the template follows
			}
		}
		return out, directive
	}))
	return o
}

func (o *output) formats() []string {
	return append([]string{"json", "yaml", "kyaml", "jsonpath=" + template}, o.more...)
}

// is reports whether one of the formats that only some commands have was chosen.
func (o *output) is(format string) bool {
	return o.format == format && strings.Contains(strings.Join(o.more, " "), format)
}

// printer returns what prints objects for programs; nil for people, and for names. There is no go-template: it calls
// methods by name, and the linker would keep every exported method of the program, which is half as large again.
func (o *output) printer() (printers.ResourcePrinter, error) {
	if o.format == "" || o.is(formatWide) || o.is(formatName) {
		return nil, nil //nolint:nilnil // people
	}
	switch o.format {
	case "json":
		return &printers.JSONPrinter{}, nil
	case "yaml":
		return &printers.YAMLPrinter{}, nil
	case "kyaml":
		return &printers.KYAMLPrinter{}, nil
	}
	format, path, _ := strings.Cut(o.format, "=")
	if !slices.Contains([]string{"jsonpath", "jsonpath-as-json", "jsonpath-file"}, format) {
		return nil, misused("-o %s is not known; use one of %s", o.format, strings.Join(o.formats(), ", "))
	}
	if path == "" {
		return nil, misused("-o %s needs a template, such as -o jsonpath='{.kind}'", format)
	}
	if format == "jsonpath-file" {
		raw, err := os.ReadFile(path) //nolint:gosec // the user's own file
		if err != nil {
			return nil, misused("-o jsonpath-file: %w", err)
		}
		path = string(raw)
	}
	p, err := printers.NewJSONPathPrinter(path)
	if err != nil {
		return nil, misused("-o %s: %w", o.format, err)
	}
	p.AllowMissingKeys(true)
	p.EnableJSONOutput(format == "jsonpath-as-json")
	return p, nil
}

// choice are the flags that say which objects a command shows, and whether it goes on.
type choice struct {
	all, watch bool
	selector   string
	since      time.Duration
}

func (s *choice) addAll(c *cobra.Command) {
	c.Flags().BoolVarP(&s.all, "all-namespaces", "A", false, "Take all namespaces")
}

func (s *choice) addSelector(c *cobra.Command) {
	c.Flags().StringVarP(&s.selector, "selector", "l", "", "Take Services and sources with these labels, such as team=a,tier!=test. "+
		"Gates follow their Service; what has no labels, such as environments, is left out")
}

func (s *choice) addWatch(c *cobra.Command) {
	c.Flags().BoolVarP(&s.watch, "watch", "w", false, "Keep running, and print what changes, until you press Ctrl-C")
}

func (s *choice) addSince(c *cobra.Command, what string) {
	c.Flags().Var((*span)(&s.since), "since", "How far back to show "+what+", such as 90m, 24h or 14d; 0 for all")
}

// span is a duration of a flag, which may be in days.
type span time.Duration

func (s *span) String() string {
	if d := time.Duration(*s); d > 0 && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	return time.Duration(*s).String()
}

func (*span) Type() string { return "duration" }

func (s *span) Set(text string) error {
	if days, is := strings.CutSuffix(text, "d"); is {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			*s = span(time.Duration(n) * 24 * time.Hour)
			return nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return errors.New("it must be a duration such as 90m, 24h or 14d, and at most 65535d")
	}
	*s = span(d)
	return nil
}

// reporter reads what the choice selects.
func (e *env) chosen(s *choice, r report.Reads) (*report.Reporter, error) {
	out := e.reporter(r)
	var err error
	if out.Select, err = labels.Parse(s.selector); err != nil {
		return nil, misused("--selector: %w", err)
	}
	if s.since > 0 {
		out.Since = e.Now().Add(-s.since)
	}
	return out, nil
}

// answer is what a command has read.
type answer struct {
	// kind and value are for programs.
	kind  string
	value any
	// names are those of the objects in it, as kubectl writes them: RESOURCE.GROUP/NAME.
	names []string
	// show prints it for people.
	show func()
	// news returns what an earlier value did not have yet, for those who watch.
	news func(before any) (news answer, has bool)
}

// answers returns what cobra runs for a command that reads once and prints, or goes on with -w. The namespace is empty
// if all are chosen.
func (e *env) answers(
	o *output, s *choice,
	read func(ctx context.Context, r *report.Reporter, namespace string, args []string) (answer, error),
) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		p, err := o.printer()
		if err != nil {
			return err
		}
		namespace, err := e.scope(s.all)
		if err != nil {
			return err
		}
		if _, err := e.chosen(s, nil); err != nil {
			return err
		}
		r, err := e.reader()
		if err != nil {
			return err
		}
		again := func(ctx context.Context, from report.Reads) (answer, error) {
			chosen, err := e.chosen(s, from)
			if err != nil {
				return answer{}, err
			}
			return read(ctx, chosen, namespace, args)
		}
		if s.watch {
			return e.follow(c.Context(), r, namespace, o, p, again)
		}
		a, err := again(c.Context(), r)
		if err != nil {
			return err
		}
		return e.give(o, p, a)
	}
}

// settle is how long to wait for further changes before what changed is shown.
const settle = 200 * time.Millisecond

// follow prints an answer, and what is new in it each time that something changes, until the context is done.
func (e *env) follow(
	ctx context.Context, r *reader.Reader, namespace string, o *output, p printers.ResourcePrinter,
	read func(context.Context, report.Reads) (answer, error),
) error {
	changed := make(chan struct{}, 1)
	live, err := r.Live(ctx, namespace, func(reader.Change) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	a, err := read(ctx, live)
	if err != nil {
		return err
	}
	if err := e.give(o, p, a); err != nil {
		return err
	}
	noted := ""
	for {
		select {
		case <-ctx.Done():
			return e.Screen.Err()
		case <-changed:
		}
		select {
		case <-ctx.Done():
			return e.Screen.Err()
		case <-time.After(settle):
		}
		now, err := read(ctx, live)
		if ctx.Err() != nil {
			return e.Screen.Err()
		}
		if err != nil {
			// Every change in the namespace leads here, and what was said stays true until something else is.
			if text := err.Error(); text != noted {
				noted = text
				e.note("note: %s", text)
			}
			continue
		}
		noted = ""
		news, has := now.news(a.value)
		if a = now; !has {
			continue
		}
		if p != nil {
			news = now // programs get all of it
		} else if !o.is(formatName) {
			e.Screen.Printf("\n%s\n", e.Screen.Paint(screen.Dim, e.stamp(e.Now())))
		}
		if err := e.give(o, p, news); err != nil {
			return err
		}
	}
}

// give prints an answer.
func (e *env) give(o *output, p printers.ResourcePrinter, a answer) error {
	switch {
	case p != nil:
		return e.print(p, a.kind, a.value)
	case o.is(formatName):
		for _, name := range a.names {
			e.Screen.Printf("%s\n", name)
		}
	default:
		a.show()
	}
	return e.Screen.Err()
}

// print writes a value for programs, as an object of that kind. Whole numbers stay whole: a JSONPath such as
// [?(@.pending>0)] compares no others with them.
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
	if err := utiljson.Unmarshal(raw, &fields); err != nil {
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
