// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/lint"
	"github.com/knative-cdevents/knative-cdevents/cli/reader"
)

func (e *env) create() *cobra.Command {
	c := &cobra.Command{
		Use:   "create",
		Short: "Create a source or a gate",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(e.createSource(), e.createGate())
	return c
}

// creation are the flags that both have.
type creation struct {
	dryRun string
	*output
}

const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

func addCreation(c *cobra.Command) *creation {
	out := &creation{output: addOutput(c, formatName)}
	c.Flags().StringVar(&out.dryRun, "dry-run", dryRunNone,
		"none; client to print the object without sending it; or server to let the API server and the webhook try it")
	c.Flags().Lookup("dry-run").NoOptDefVal = dryRunClient
	must(c.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions(
		[]string{dryRunNone, dryRunClient, dryRunServer}, cobra.ShellCompDirectiveNoFileComp)))
	return out
}

func (e *env) createSource() *cobra.Command {
	var sink, selector, environment, replay, version string
	c := &cobra.Command{
		Use:   "source NAME --sink SINK",
		Short: "Create a CDEventSource, which sends the events of a namespace's Services to a sink",
		Long: "Creates a CDEventSource. For all other fields, such as filters and delivery, add --dry-run=client -o yaml and edit\n" +
			"what it prints: kubectl explain cdeventsource.spec",
		Example: "  kubectl cdevents create source releases -n shop --sink broker:default\n" +
			"  kubectl cdevents create source chat --sink https://hooks.example.com/releases --selector team=a\n" +
			"  kubectl cdevents create source releases --sink ksvc:event-display --dry-run=client -o yaml",
		Args: cobra.ExactArgs(1),
	}
	f := c.Flags()
	f.StringVar(&sink, "sink", "", "Where to send events: broker:NAME, ksvc:NAME, svc:NAME, channel:NAME, "+
		"KIND.GROUP/VERSION:NAME, or a URI. Required")
	f.StringVarP(&selector, "selector", "l", "", "Send only the events of objects with these labels, such as team=a,tier!=test")
	f.StringVar(&environment, "environment", "", "The id of the environment in the events, such as production")
	f.StringVar(&replay, "replay", "", "None, or Current to receive the present state of each Service first")
	f.StringVar(&version, "cdevents-version", "", "The version of CDEvents to send: 0.5 or 0.4")
	must(c.RegisterFlagCompletionFunc("replay", cobra.FixedCompletions(
		[]string{string(v1alpha1.ReplayNone), string(v1alpha1.ReplayCurrent)}, cobra.ShellCompDirectiveNoFileComp)))
	must(c.RegisterFlagCompletionFunc("cdevents-version", cobra.FixedCompletions(
		[]string{"0.5", "0.4"}, cobra.ShellCompDirectiveNoFileComp)))
	of := addCreation(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		s := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{Name: args[0]}}
		s.SetGroupVersionKind(v1alpha1.SourceKind)
		to, err := destination(sink)
		if err != nil {
			return err
		}
		s.Spec.Sink, s.Spec.Replay = *to, v1alpha1.Replay(replay)
		if selector != "" {
			if s.Spec.Selector, err = metav1.ParseToLabelSelector(selector); err != nil {
				return misused("--selector: %w", err)
			}
		}
		if environment != "" {
			s.Spec.Environment = &v1alpha1.Environment{ID: environment}
		}
		if version != "" {
			s.Spec.CDEvents = &v1alpha1.CDEventsSpec{Version: version}
		}
		return e.submit(c.Context(), of, v1alpha1.SourceResource, s, sourceName(s.Name))
	}
	return c
}

// sinkKinds are short names of the kinds that are sinks most often.
var sinkKinds = map[string]schema.GroupVersionKind{
	"broker":  {Group: "eventing.knative.dev", Version: "v1", Kind: "Broker"},
	"channel": {Group: "messaging.knative.dev", Version: "v1", Kind: "Channel"},
	"ksvc":    {Group: "serving.knative.dev", Version: "v1", Kind: "Service"},
	"svc":     {Version: "v1", Kind: "Service"},
}

// destination reads a sink as kn does.
func destination(sink string) (*duckv1.Destination, error) {
	const right = "use broker:NAME, ksvc:NAME, svc:NAME, channel:NAME, KIND.GROUP/VERSION:NAME, or a URI such as https://hooks.example.com/"
	if sink == "" {
		return nil, misused("--sink is missing; %s", right)
	}
	if strings.Contains(sink, "://") {
		uri, err := apis.ParseURL(sink)
		if err != nil {
			return nil, misused("--sink: %w; %s", err, right)
		}
		return &duckv1.Destination{URI: uri}, nil
	}
	kind, name, has := strings.Cut(sink, ":")
	if !has || name == "" {
		return nil, misused("--sink is %q; %s", sink, right)
	}
	if len(validation.NameIsDNSSubdomain(name, false)) > 0 {
		return nil, misused("--sink: %q is not the name of an object; %s", name, right)
	}
	of, known := sinkKinds[strings.ToLower(kind)]
	if !known {
		full, version, _ := strings.Cut(kind, "/")
		short, group, _ := strings.Cut(full, ".")
		if of = (schema.GroupVersionKind{Group: group, Version: version, Kind: short}); group == "" || version == "" {
			return nil, misused("--sink: %q is no kind of a sink; %s", kind, right)
		}
	}
	apiVersion, of2 := of.ToAPIVersionAndKind()
	return &duckv1.Destination{Ref: &duckv1.KReference{APIVersion: apiVersion, Kind: of2, Name: name}}, nil
}

func (e *env) createGate() *cobra.Command {
	spec := v1alpha1.CanaryGateSpec{}
	timeout := time.Duration(0)
	least := int64(0)
	c := &cobra.Command{
		Use:   "gate NAME --service SERVICE",
		Short: "Create a CanaryGate, which judges the canary of a Service",
		Long: "Creates a CanaryGate. For all other fields, such as metrics, add --dry-run=client -o yaml and edit what it prints:\n" +
			"kubectl explain canarygate.spec",
		Example: "  kubectl cdevents create gate cart-gate -n shop --service cart --watch\n" +
			"  kubectl cdevents create gate cart-gate --service cart --watch --only-report",
		Args: cobra.ExactArgs(1),
	}
	f := c.Flags()
	f.StringVar(&spec.Service, "service", "", "The name of the Knative Service, in the same namespace. Required")
	f.BoolVar(&spec.Watch, "watch", false, "Start a run at each new split of the Service's traffic (spec.watch). "+
		"Without it, only CustomRuns of Tekton start runs")
	f.BoolVar(&spec.DryRun, "only-report", false, "Judge and report, but never stop anything (spec.dryRun)")
	f.DurationVar(&timeout, "timeout", 0, "The time after which an undecided run becomes Inconclusive (spec.schedule.timeout)")
	f.Int64Var(&least, "min-requests", 0, "How many requests canary and baseline must each have finished (spec.minimum)")
	must(c.RegisterFlagCompletionFunc("service", func(c *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
		return e.names(c, nil, begin, serviceNames)
	}))
	of := addCreation(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		g := &v1alpha1.CanaryGate{ObjectMeta: metav1.ObjectMeta{Name: args[0]}, Spec: spec}
		g.SetGroupVersionKind(v1alpha1.GateKind)
		if spec.Service == "" {
			return misused("--service is missing; name the Knative Service whose canary is judged")
		}
		if c.Flags().Changed("timeout") {
			g.Spec.Schedule = &v1alpha1.GateSchedule{Timeout: &v1alpha1.Duration{Duration: timeout}}
		}
		if c.Flags().Changed("min-requests") {
			g.Spec.Minimum = &v1alpha1.GateMinimum{CanaryRequests: &least, BaselineRequests: &least}
		}
		if err := g.Validate(c.Context()); err != nil {
			return coded{err, codeUsage}
		}
		return e.submit(c.Context(), of, v1alpha1.GateResource, g, gateName(g.Name))
	}
	return c
}

// submit creates an object, as far as --dry-run lets it, and prints what -o says.
func (e *env) submit(
	ctx context.Context, of *creation, resource schema.GroupVersionResource, object interface {
		runtime.Object
		metav1.Object
	}, name string,
) error {
	if !slices.Contains([]string{dryRunNone, dryRunClient, dryRunServer}, of.dryRun) {
		return misused("--dry-run is %q; it must be none, client or server", of.dryRun)
	}
	p, err := of.printer()
	if err != nil {
		return err
	}
	namespace, err := e.namespace()
	if err != nil {
		return err
	}
	object.SetNamespace(namespace)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return fmt.Errorf("creating %s: %w", name, err)
	}
	got, done := &unstructured.Unstructured{Object: content}, "created"
	unstructured.RemoveNestedField(got.Object, "status")
	unstructured.RemoveNestedField(got.Object, "metadata", "creationTimestamp")
	if of.dryRun == dryRunClient {
		// The API server does not try it, so what lint knows is all that is said about it.
		if err := e.linted(got); err != nil { //nolint:contextcheck // lint asks no cluster
			return err
		}
		done = "created (dry run)"
	} else {
		r, err := e.reader()
		if err != nil {
			return err
		}
		if got, err = r.Create(ctx, resource, got, of.dryRun == dryRunServer); err != nil {
			return refused(err)
		}
		got.SetManagedFields(nil) // kubectl leaves them out, too
		if of.dryRun == dryRunServer {
			done = "created (server dry run)"
		}
	}
	switch {
	case p != nil:
		if err := p.PrintObj(got, e.Out); err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
	case of.is(formatName):
		e.Screen.Printf("%s\n", name)
	default:
		e.Screen.Printf("%s %s\n", name, done)
	}
	return e.Screen.Err()
}

// linted says what is wrong with an object, as far as that is known without a cluster.
func (e *env) linted(object *unstructured.Unstructured) error {
	raw, err := object.MarshalJSON()
	if err != nil {
		return fmt.Errorf("checking %s: %w", object.GetName(), err)
	}
	l := &lint.Linter{System: e.system}
	l.Read("", raw)
	var wrong []string
	for _, p := range l.Problems {
		wrong = append(wrong, strings.TrimSpace(p.Field+" "+p.What))
	}
	if len(wrong) > 0 {
		return misused("%s", strings.Join(wrong, "\n"))
	}
	return nil
}

// refused says whether the object was refused, or could not be sent.
func refused(err error) error {
	var status apierrors.APIStatus
	if errors.Is(err, reader.ErrNotInstalled) {
		return err
	}
	if errors.As(err, &status) && !apierrors.IsInternalError(err) && !apierrors.IsTimeout(err) &&
		!apierrors.IsServerTimeout(err) &&
		!apierrors.IsServiceUnavailable(err) && !apierrors.IsTooManyRequests(err) && !apierrors.IsForbidden(err) &&
		!apierrors.IsUnauthorized(err) {
		return coded{err, codeNo}
	}
	return err
}
