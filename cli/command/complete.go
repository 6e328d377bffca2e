// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/reader"
	"github.com/knative-cdevents/knative-cdevents/cli/report"
)

// completionTime limits how long a user waits for a completion.
const completionTime = 3 * time.Second

// names returns the words that begin like the one to complete. Failures complete nothing.
func (e *env) names(
	c *cobra.Command,
	args []string,
	begin string,
	list func(context.Context, *reader.Reader, string) []string,
) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(c.Context(), completionTime)
	defer cancel()
	namespace, err := e.namespace()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	r, err := e.reader()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, name := range list(ctx, r, namespace) {
		if strings.HasPrefix(name, begin) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), cobra.ShellCompDirectiveNoFileComp
}

func serviceNames(ctx context.Context, r *reader.Reader, namespace string) []string {
	services, _ := r.Services(ctx, namespace) // what cannot be read is not completed
	var out []string
	for i := range services {
		out = append(out, services[i].Name)
	}
	return out
}

func gateNames(ctx context.Context, r *reader.Reader, namespace string) []string {
	gates, _ := r.Gates(ctx, namespace) // as above
	var out []string
	for i := range gates {
		out = append(out, gates[i].Name)
	}
	return out
}

func (e *env) completeServices(c *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
	return e.names(c, args, begin, serviceNames)
}

// completeGates completes Services that have a gate, and gates.
func (e *env) completeGates(c *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
	return e.names(c, args, begin, func(ctx context.Context, r *reader.Reader, namespace string) []string {
		gates, _ := r.Gates(ctx, namespace) // as above
		var out []string
		for i := range gates {
			out = append(out, gates[i].Name, gates[i].Spec.Service)
		}
		return out
	})
}

// completeAll completes Services, sources and gates.
func (e *env) completeAll(c *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
	return e.names(c, args, begin, func(ctx context.Context, r *reader.Reader, namespace string) []string {
		out := append(serviceNames(ctx, r, namespace), gateNames(ctx, r, namespace)...)
		sources, _ := r.Sources(ctx, namespace) // as above
		for i := range sources {
			out = append(out, sources[i].Name)
		}
		return out
	})
}

// completeSubjects completes Services, and environments of the ledger as KIND/NAME.
func (e *env) completeSubjects(c *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
	return e.names(c, args, begin, func(ctx context.Context, r *reader.Reader, namespace string) []string {
		out := serviceNames(ctx, r, namespace)
		if !strings.Contains(begin, "/") && len(out) > 0 {
			return out
		}
		entries, _ := r.Ledger(ctx, "") // as above
		for i := range entries {
			if of := environmentName(&entries[i], namespace); of != "" {
				out = append(out, of)
			}
		}
		return out
	})
}

// environmentName returns KIND/NAME of an environment that the namespace's users can name, or nothing.
func environmentName(s *v1alpha1.CDEventSubject, namespace string) string {
	if report.IsService(s) || s.Spec.Namespace != "" && s.Spec.Namespace != namespace {
		return ""
	}
	return strings.ToLower(s.Spec.Kind) + "/" + s.Spec.Name
}

// completeFlags completes the values of flags that all commands have.
func (e *env) completeFlags(root *cobra.Command) {
	namespaces := func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		r, err := e.reader()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), completionTime)
		defer cancel()
		all, _ := r.Namespaces(ctx) // what cannot be read is not completed
		return all, cobra.ShellCompDirectiveNoFileComp
	}
	must(root.RegisterFlagCompletionFunc("namespace", namespaces))
	must(root.RegisterFlagCompletionFunc("system-namespace", namespaces))
	must(
		root.RegisterFlagCompletionFunc(
			"context",
			func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				raw, err := e.connection.config().RawConfig()
				if err != nil {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				var out []string
				for name := range raw.Contexts {
					out = append(out, name)
				}
				slices.Sort(out)
				return out, cobra.ShellCompDirectiveNoFileComp
			},
		),
	)
}

// completeSources completes sources.
func (e *env) completeSources(c *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
	return e.names(c, args, begin, func(ctx context.Context, r *reader.Reader, namespace string) []string {
		sources, _ := r.Sources(ctx, namespace) // what cannot be read is not completed
		var out []string
		for i := range sources {
			out = append(out, sources[i].Name)
		}
		return out
	})
}
