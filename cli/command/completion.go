// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// program is how the program is called by itself.
const program = "kubectl-cdevents"

// completerScript completes for kubectl: it calls the program as it would be called by a shell's script.
const completerScript = `#!/bin/sh
exec ` + program + ` ` + cobra.ShellCompRequestCmd + ` "$@"
`

func (e *env) completion() *cobra.Command {
	c := &cobra.Command{
		Use:   "completion kubectl | bash | zsh | fish | powershell",
		Short: "Print what completes command lines of kubectl cdevents, or of kubectl-cdevents",
		Long: "kubectl completes the words after \"kubectl cdevents\" by a program called " + Completer + " in your PATH. It is\n" +
			"the same program as kubectl-cdevents: make a link with that name, or save what \"completion kubectl\" prints. On\n" +
			"Windows, copy the program to " + Completer + ".exe. kubectl's own completion must be on.\n\n" +
			"bash, zsh, fish and powershell print a script for those who call kubectl-cdevents by itself. kn does not complete\n" +
			"plugins.",
		Example: "  kubectl cdevents completion kubectl > ~/.local/bin/" + Completer + "\n" +
			"  chmod +x ~/.local/bin/" + Completer + "\n" +
			"  source <(kubectl-cdevents completion bash)",
		Args:                  cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs:             []string{"kubectl", "bash", "zsh", "fish", "powershell"},
		DisableFlagsInUseLine: true,
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		root := c.Root()
		root.Use = program // the scripts are for this name
		write := map[string]func(io.Writer) error{
			"kubectl":    func(w io.Writer) error { _, err := io.WriteString(w, completerScript); return err },
			"bash":       func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
			"zsh":        root.GenZshCompletion,
			"fish":       func(w io.Writer) error { return root.GenFishCompletion(w, true) },
			"powershell": root.GenPowerShellCompletionWithDesc,
		}[args[0]]
		if err := write(e.Out); err != nil {
			return fmt.Errorf("writing the script: %w", err)
		}
		return nil
	}
	return c
}
