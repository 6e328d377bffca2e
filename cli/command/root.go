// SPDX-License-Identifier: Apache-2.0

// Package command is the command line of kubectl cdevents.
//
// Its invariant: a command prints what it could read and says what it could not, and why. Only create writes to the
// cluster, and test-event sends. The output for people may change; that of -o json and yaml says its version, and the
// exit codes are those that the help lists.
package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/knative-cdevents/knative-cdevents/cli/advice"
	"github.com/knative-cdevents/knative-cdevents/cli/reader"
	"github.com/knative-cdevents/knative-cdevents/cli/released"
	"github.com/knative-cdevents/knative-cdevents/cli/report"
	"github.com/knative-cdevents/knative-cdevents/cli/screen"
)

// Options are what the commands need of their surroundings.
type Options struct {
	genericiooptions.IOStreams
	// Program is the first argument of the process: its name decides how the usage calls the command.
	Program string
	// Getenv reads the environment.
	Getenv func(string) string
	// Now is the clock.
	Now func() time.Time
	// Screen, if set, replaces the screen for Out.
	Screen *screen.Screen
}

// env is what all commands share.
type env struct {
	Options
	connection *connection
	system     string
}

// Completer is the name under which kubectl calls a plugin's program to complete a command line.
const Completer = "kubectl_complete-cdevents"

// New returns the command. If the program is called by the name Completer, it completes the command line that
// its arguments are.
func New(o Options, args []string) *cobra.Command {
	e := &env{Options: o, connection: newConnection()}
	if e.Screen == nil {
		e.Screen = screen.New(o.Out, o.Getenv)
	}
	root := &cobra.Command{
		Use:     "cdevents",
		Short:   "Show what happens to your Knative Services, and why something does not work",
		Version: released.Current(),
		Long: "Shows rollouts, gates and events of Knative Services, and of environments.\n" +
			"It works with your own rights. Only \"create\" writes to the cluster, and only \"test-event\" sends something.\n\n" +
			exitCodes,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: displayName(o.Program)},
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(o.In)
	root.SetOut(o.Out)
	root.SetErr(o.ErrOut)
	e.connection.addFlags(root.PersistentFlags())
	root.PersistentFlags().StringVar(&e.system, "system-namespace", "knative-cdevents", "The namespace of the controller")
	root.AddCommand(e.list(), e.history(), e.watch(), e.gate(), e.why(), e.dashboard(), e.check(), e.lint(), e.create(),
		e.testEvent(), e.compare(), e.version(), e.completion())
	root.CompletionOptions.DisableDefaultCmd = true
	addHelp(root)
	e.completeFlags(root)
	usages(root)
	if nameOf(o.Program) == Completer {
		args = append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	root.SetArgs(wrongTopic(root, args))
	return root
}

// displayName is how the user calls the program: "kubectl cdevents" or "kn cdevents".
func displayName(program string) string {
	name := nameOf(program)
	for _, host := range []string{"kubectl", "kn"} {
		if name == host+"-cdevents" {
			return host + " cdevents"
		}
	}
	return "kubectl cdevents"
}

// nameOf returns the name of a program without its folder, and without what Windows adds.
func nameOf(program string) string {
	base := program[strings.LastIndexAny(program, `/\`)+1:]
	if strings.EqualFold(filepath.Ext(base), ".exe") {
		base = base[:len(base)-len(".exe")]
	}
	return base
}

// reader connects to the cluster that the flags choose.
func (e *env) reader() (*reader.Reader, error) {
	cfg, err := e.config()
	if err != nil {
		return nil, err
	}
	return reader.New(cfg, e.system)
}

// config is how to connect to that cluster.
func (e *env) config() (*rest.Config, error) {
	cfg, err := e.connection.config().ClientConfig()
	if err != nil {
		return nil, e.connection.wrong("choosing a cluster", err)
	}
	if strings.HasSuffix(cfg.Host, "localhost:8080") {
		if raw, err := e.connection.config().RawConfig(); err == nil && len(raw.Clusters) == 0 && e.connection.overrides.ClusterInfo.Server == "" {
			e.note("note: no kubeconfig names a cluster, so this tries %s, as kubectl does; set KUBECONFIG, or give --kubeconfig", cfg.Host)
		}
	}
	cfg.QPS, cfg.Burst = 50, 100
	cfg.UserAgent = "kubectl-cdevents/" + released.Current()
	return cfg, nil
}

// namespace returns the namespace that the flags choose, or that of the context.
func (e *env) namespace() (string, error) {
	namespace, _, err := e.connection.config().Namespace()
	if err != nil {
		return "", e.connection.wrong("choosing a namespace", err)
	}
	return namespace, nil
}

// scope returns the namespace, or "" for all.
func (e *env) scope(all bool) (string, error) {
	if all {
		return "", nil
	}
	return e.namespace()
}

// reporter reads what the commands show.
func (e *env) reporter(r report.Reads) *report.Reporter {
	return &report.Reporter{Reads: r, Clock: e.clock()}
}

func (e *env) clock() advice.Clock { return advice.Clock{Now: e.Now(), System: e.system} }

// in says in which namespace nothing was found; nothing if all were searched.
func in(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace
}

// note tells something beside the result, on the error stream.
func (e *env) note(format string, args ...any) {
	_, _ = fmt.Fprintf(e.ErrOut, format+"\n", screen.Args(args)...) // there is no third stream to report this on
}

// Streams are those of the process.
func Streams() genericiooptions.IOStreams {
	return genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
}
