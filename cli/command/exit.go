// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/knative-cdevents/knative-cdevents/cli/reader"
)

// The exit codes.
const (
	codeDone    = 0
	codeNo      = 1
	codeUsage   = 2
	codeUnknown = 3
)

// exitCodes explains them.
const exitCodes = `Exit codes:
  0    it was done, and the answer, if there is one, is yes
  1    the answer is no: check or lint found a failure, the gate reached another verdict, the sink did not accept the
       event, the object does not exist or was refused
  2    the command line is wrong
  3    it could not be done or found out: the API server did not answer or refused, or the time ran out
  130  you pressed Ctrl-C, also in a command that keeps running until then (Windows has a code of its own)`

// coded is an error with its exit code.
type coded struct {
	error
	code int
}

func (c coded) Unwrap() error { return c.error }

// no is the answer of a command that is no.
func no(format string, args ...any) error { return coded{fmt.Errorf(format, args...), codeNo} }

// misused is an error of the command line.
func misused(format string, args ...any) error { return coded{fmt.Errorf(format, args...), codeUsage} }

// Code returns the exit code for the error of a command.
func Code(err error) int {
	var c coded
	switch {
	case err == nil:
		return codeDone
	case errors.As(err, &c):
		return c.code
	case errors.Is(err, reader.ErrNotFound):
		return codeNo
	case errors.Is(err, reader.ErrUnknownKind):
		return codeUsage
	}
	return codeUnknown
}

// wrongArguments says what would be right.
func wrongArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("an argument is missing; use %s", c.UseLine())
	}
	if groups(c) {
		return unknownCommand(c, args[0])
	}
	right := c.UseLine()
	for _, sub := range c.Commands() {
		right += ", or " + sub.UseLine()
	}
	return fmt.Errorf("%q is not expected here; use %s", args[len(args)-1], right)
}

// addHelp adds the command help. That of cobra takes an unknown command for none.
func addHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	must(err)
	show := help.Run
	help.Run, help.RunE = nil, func(c *cobra.Command, args []string) error {
		if of, rest, err := root.Find(args); err == nil && len(rest) > 0 {
			return coded{unknownCommand(of, rest[0]), codeUsage}
		}
		show(c, args)
		return nil
	}
	help.Args = cobra.ArbitraryArgs
}

// wrongTopic takes --help away from the name of a command that does not exist: cobra would show the help of its group.
func wrongTopic(root *cobra.Command, args []string) []string {
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return args
	}
	without := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--help" || a == "-h" })
	of, rest, err := root.Find(without)
	if err == nil && groups(of) && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return without
	}
	return args
}

// unknownCommand says that a command has none of that name.
func unknownCommand(c *cobra.Command, word string) error {
	if !c.HasSubCommands() {
		return fmt.Errorf("%s has no command %q, nor any other; for its help: %s --help", c.CommandPath(), word, c.CommandPath())
	}
	if c.SuggestionsMinimumDistance == 0 {
		c.SuggestionsMinimumDistance = 2
	}
	if near := slices.Compact(c.SuggestionsFor(word)); len(near) > 0 {
		return fmt.Errorf("%s has no command %q; did you mean %s?", c.CommandPath(), word, strings.Join(near, " or "))
	}
	return fmt.Errorf("%s has no command %q; to list them: %s --help", c.CommandPath(), word, c.CommandPath())
}

// groups reports whether a command does nothing but hold others.
func groups(c *cobra.Command) bool { return c.HasSubCommands() && c.Annotations[takesArguments] == "" }

// takesArguments is the annotation of a command that holds others, and takes arguments too.
const takesArguments = "takes-arguments"

// wrongFlag says what would be right. The flags of a command that does not exist are not known either.
func wrongFlag(c *cobra.Command, err error) error {
	if args := c.Flags().Args(); groups(c) && len(args) > 0 {
		return coded{unknownCommand(c, args[0]), codeUsage}
	}
	if strings.HasPrefix(err.Error(), "unknown ") {
		err = fmt.Errorf("%w; %s", err, whichFlags(c, err))
	}
	return coded{err, codeUsage}
}

// whichFlags says which commands of a group have the flag, as if one of them was misspelled. It is not said of the
// root, where most of them have it.
func whichFlags(c *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if c.HasParent() && errors.As(err, &unknown) {
		var have []string
		name := unknown.GetSpecifiedName()
		for _, sub := range c.Commands() {
			flag := sub.Flags().Lookup(name)
			if unknown.GetSpecifiedShortnames() != "" && len(name) == 1 { // of ü, it is two bytes
				flag = sub.Flags().ShorthandLookup(name)
			}
			if flag != nil {
				have = append(have, sub.UseLine())
			}
		}
		if len(have) > 0 {
			return "it is a flag of " + strings.Join(have, " and ")
		}
	}
	return "to list the flags: " + c.CommandPath() + " --help"
}

// usages gives the errors that cobra finds on a command line their exit code.
func usages(c *cobra.Command) {
	c.SetFlagErrorFunc(wrongFlag)
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if slices.Contains(args, "") { // as "$SERVICE" is if the variable is not set
				return misused("an argument is empty; use %s", c.UseLine())
			}
			if err := check(c, args); err != nil {
				return coded{wrongArguments(c, args), codeUsage}
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		usages(sub)
	}
}
