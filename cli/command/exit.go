// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

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
  0  it was done, and the answer, if there is one, is yes
  1  the answer is no: check or lint found a failure, the gate reached another verdict, the sink did not accept the
     event, the object does not exist or was refused
  2  the command line is wrong
  3  it could not be done or found out: the API server did not answer or refused, or the time ran out`

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
	}
	return codeUnknown
}

// wrongArguments says what would be right.
func wrongArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("an argument is missing; use %s", c.UseLine())
	}
	last := args[len(args)-1]
	if c.HasSubCommands() && len(args) == 1 {
		c.SuggestionsMinimumDistance = 2
		if near := c.SuggestionsFor(last); len(near) > 0 {
			return fmt.Errorf("%s has no command %q; did you mean %s?", c.CommandPath(), last, strings.Join(near, " or "))
		}
		return fmt.Errorf("%s has no command %q; %s --help lists them", c.CommandPath(), last, c.CommandPath())
	}
	return fmt.Errorf("%q is not expected here; use %s", last, c.UseLine())
}

// usages gives the errors that cobra finds on a command line their exit code.
func usages(c *cobra.Command) {
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return coded{err, codeUsage} })
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
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
