// SPDX-License-Identifier: Apache-2.0

// Command kubectl-cdevents shows rollouts, gates and events of Knative Services. As kubectl-cdevents or
// kn-cdevents on the PATH, it is the plugin "cdevents" of kubectl or kn.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
	"github.com/knative-cdevents/knative-cdevents/cli/command"
)

// It handles no signals: a shell ends its script at Ctrl-C only if the command died of it.
func main() {
	err := command.New(command.Options{
		IOStreams: command.Streams(), Program: os.Args[0], Getenv: os.Getenv, Now: time.Now,
	}, os.Args[1:]).Execute()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error: "+sanitize.VisibleLines(sanitize.WithoutCredentials(err.Error())))
		os.Exit(command.Code(err))
	}
}
