// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/cli/command"
)

// What is wrong on a command line is found without a cluster, has the exit code 2, and the error says what would be right.
func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none")
	if err := os.WriteFile(none, []byte("{apiVersion: v1, kind: Config}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"lst":                                      `kubectl cdevents has no command "lst"; did you mean lint or list?`,
		"bogus":                                    `no command "bogus"; to list them: kubectl cdevents --help`,
		"lst -A":                                   `kubectl cdevents has no command "lst"; did you mean lint or list?`,
		"gates cart":                               `kubectl cdevents has no command "gates"; did you mean gate?`,
		"create gates a --service cart":            `kubectl cdevents create has no command "gates"; did you mean gate?`,
		"help nope":                                `kubectl cdevents has no command "nope"; to list them: kubectl cdevents --help`,
		"help lst":                                 `did you mean lint or list?`,
		"help create gte":                          `kubectl cdevents create has no command "gte"; did you mean gate?`,
		"help gate wiat":                           `kubectl cdevents gate has no command "wiat"; did you mean wait?`,
		"help list nope":                           `kubectl cdevents list has no command "nope"`,
		"list --context nope":                      "the kubeconfig has no context \"nope\"; to list them: kubectl config get-contexts",
		"list --cluster nope":                      "the kubeconfig has no cluster \"nope\"; to list them: kubectl config get-clusters",
		"list --user nope":                         "the kubeconfig has no user \"nope\"; to list them: kubectl config get-users",
		"list --request-timeout soon":              "--request-timeout is \"soon\"; it must be a duration",
		"test-event a --timeout=0":                 "--timeout is 0s; it must be a duration such as 30s",
		"list --as-group ops":                      "--as is missing",
		"create gte":                               `kubectl cdevents create has no command "gte"; did you mean gate?`,
		"gate":                                     "an argument is missing; use kubectl cdevents gate SERVICE",
		"gate wait":                                "use kubectl cdevents gate wait GATE",
		"history":                                  "use kubectl cdevents history",
		"test-event":                               "use kubectl cdevents test-event SOURCE",
		"create source --sink ksvc:a":              "use kubectl cdevents create source NAME --sink SINK",
		"list extra":                               `"extra" is not expected here; use kubectl cdevents list`,
		"gate cart extra":                          `"extra" is not expected here; use kubectl cdevents gate SERVICE`,
		"gate wiat cart-gate":                      "use kubectl cdevents gate SERVICE | GATE [flags], or kubectl cdevents gate wait GATE",
		"completion tcsh":                          `"tcsh" is not expected here; use kubectl cdevents completion kubectl | bash | zsh | fish | powershell`,
		"list --selectr a=b":                       "unknown flag: --selectr; to list the flags: kubectl cdevents list --help",
		"list -o yml":                              "use one of json, yaml, kyaml, jsonpath=TEMPLATE, name, wide",
		"list -o jsonpath={.a":                     "unclosed action",
		"list -l a==b=c":                           "--selector: found '='",
		"gate wait cart --for=verdict=Pas":         "use Pass, Warn, Fail",
		"gate wait cart --timeout=-1s":             "it must be a duration such as 20m, or 0",
		"compare --since 99999d":                   "at most 65535d",
		"compare -f testdata/none.yaml":            "no such file",
		"compare -f testdata/list.txt":             "reading the rules",
		"compare --kayenta-lifetime 5s":            "it must be a minute or more",
		"dashboard --port 99999":                   "--port is 99999; it must be from 1 to 65535, or 0",
		"lint":                                     "name files or folders with -f",
		"lint -f https://example.com/a.yaml":       "instead: curl -fsSL 'https://example.com/a.yaml' | kubectl cdevents lint -f -",
		"lint -f testdata/none.yaml":               "no such file",
		"create source a --sink ksvc:display:shop": "\"display:shop\" is not the name of an object",
		"create source a --sink foo":               "use broker:NAME",
		"create source a --sink http://a --replay Yes --dry-run=client":           "spec.replay it is \"Yes\"; it must be one of None, Current",
		"create source a --sink http://a --cdevents-version 0.3 --dry-run=client": "spec.cdevents.version is \"0.3\"; it must be",
		"create source a --sink http://a --dry-run=maybe":                         "it must be none, client or server",
		"create gate My_Gate --service cart --dry-run=client":                     "metadata.name \"My_Gate\" is not a name",
		"create gate a --dry-run=client":                                          "--service is missing",
		"create gate a --service cart --min-requests=-1":                          "it must be a whole number from 1",
		"test-event a --via pigeon":                                               "it must be auto, direct or proxy",
		"watch -A cart":                                                           "a name and --all-namespaces or --selector do not go together",
	} {
		r := run(t, none, "", strings.Fields(args)...)
		r.errors(t, want)
		if code := command.Code(r.failed); code != 2 {
			t.Errorf("%s: the exit code is %d", args, code)
		}
	}
}

// refused runs command lines that are wrong, each with its error.
func refused(t *testing.T, lines map[string]string) {
	t.Helper()
	for args, want := range lines {
		r := run(t, "/nowhere", "", strings.Fields(args)...)
		if r.errors(t, want); command.Code(r.failed) != 2 {
			t.Errorf("%s: the exit code is %d", args, command.Code(r.failed))
		}
	}
}

// There is no help of what does not exist, and no suggestion for what looks like nothing.
func TestHelpOfNothing(t *testing.T) {
	t.Parallel()
	refused(t, map[string]string{
		"help gate cart": `kubectl cdevents gate has no command "cart"; to list them: kubectl cdevents gate --help`,
		"help list nope": `kubectl cdevents list has no command "nope", nor any other; for its help: kubectl cdevents list --help`,
		"nope --help":    `kubectl cdevents has no command "nope"; to list them: kubectl cdevents --help`,
		"-h lst":         `did you mean lint or list?`,
		"create gte -h":  `kubectl cdevents create has no command "gte"; did you mean gate?`,
	})
}

// A flag that only another command of the group has tells which one was meant.
func TestFlagsOfOtherCommands(t *testing.T) {
	t.Parallel()
	refused(t, map[string]string{
		"gate wiat cart-gate --canary a": "unknown flag: --canary; it is a flag of kubectl cdevents gate wait GATE",
		"create --service a":             "unknown flag: --service; it is a flag of kubectl cdevents create gate NAME --service SERVICE",
		"create -l a=b":                  "unknown shorthand flag: 'l' in -l; it is a flag of kubectl cdevents create source NAME",
		"create -ü":                      "unknown shorthand flag",
		"gate cart --nope":               "unknown flag: --nope; to list the flags: kubectl cdevents gate --help",
		"-A":                             "unknown shorthand flag: 'A' in -A; to list the flags: kubectl cdevents --help",
	})
}

// Whoever asks for help gets it, also behind an argument.
func TestHelpIsShown(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--help": "kubectl cdevents [command]", "-n shop --help": "kubectl cdevents [command]", "create -h": "kubectl cdevents create [command]",
		"gate cart --help": "kubectl cdevents gate SERVICE | GATE", "gate wait --help": "kubectl cdevents gate wait GATE", "lint -f a -h": "kubectl cdevents lint -f FILE",
		"help": "kubectl cdevents [command]", "help create": "kubectl cdevents create [command]", "help gate wait": "kubectl cdevents gate wait GATE",
	} {
		r := run(t, "/nowhere", "", strings.Fields(args)...)
		if r.errors(t, ""); !strings.Contains(r.out, want) {
			t.Errorf("%s printed %s%s, without %q", args, r.out, r.err, want)
		}
	}
}

// An empty argument is an empty variable of a script.
func TestEmptyArguments(t *testing.T) {
	t.Parallel()
	for _, words := range [][]string{{"gate", ""}, {"gate", "wait", ""}, {"history", ""}, {"why", ""}, {"watch", ""}, {"test-event", ""}, {"list", ""}, {""}, {"create", ""}, {"help", ""}, {"help", "gate", ""}, {"gate", "", "more"}} {
		r := run(t, "/nowhere", "", words...)
		if r.errors(t, "an argument is empty; use kubectl cdevents "); command.Code(r.failed) != 2 {
			t.Errorf("%q: %v", words, r.failed)
		}
	}
	r := run(t, filepath.Join(t.TempDir(), "none"), "", "list")
	if r.errors(t, "--kubeconfig: "); command.Code(r.failed) != 2 {
		t.Errorf("without the file that --kubeconfig names, the exit code is %d", command.Code(r.failed))
	}
}

// Without a kubeconfig, localhost is tried, as kubectl does, and a note says why.
func TestWithoutKubeconfig(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	r := run(t, "", "", "list", "-n", "shop")
	if !strings.Contains(r.err, "no kubeconfig names a cluster") || command.Code(r.failed) != 3 {
		t.Errorf("%v, %s", r.failed, r.err)
	}
}

// If the program before a pipe has failed, lint reads nothing, and does not say that nothing is wrong.
func TestLintOfNothing(t *testing.T) {
	t.Parallel()
	r := run(t, "/nowhere", "", "lint", "-f", "-")
	if r.errors(t, "the standard input has no objects"); command.Code(r.failed) != 1 || r.out != "" {
		t.Errorf("the exit code is %d, and it printed %q", command.Code(r.failed), r.out)
	}
}
