// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	// fenced matches a block of commands in a page.
	fenced = regexp.MustCompile("(?s)```sh\n(.*?)```")
	// inline matches a command in a sentence of a page.
	inline = regexp.MustCompile("`(kubectl [^`]+)`")
)

// Runbook is what docs/runbooks.md tells the reader to run for an alert.
type Runbook struct {
	// Look are the commands in blocks, one for each line.
	Look []string
	// Do are the commands in sentences.
	Do []string
}

// Runbook reads the section about an alert.
func (k *Kit) Runbook(alert string) (Runbook, error) {
	page, err := os.ReadFile(k.Path("docs", "runbooks.md"))
	if err != nil {
		return Runbook{}, fmt.Errorf("reading the runbooks: %w", err)
	}
	_, section, found := strings.Cut(string(page), "\n## "+alert+"\n")
	if !found {
		return Runbook{}, fmt.Errorf("docs/runbooks.md has no section %s", alert)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var r Runbook
	for _, block := range fenced.FindAllStringSubmatch(section, -1) {
		r.Look = append(r.Look, strings.Split(strings.TrimSpace(block[1]), "\n")...)
	}
	for _, command := range inline.FindAllStringSubmatch(fenced.ReplaceAllString(section, ""), -1) {
		r.Do = append(r.Do, strings.ReplaceAll(command[1], "\n", " "))
	}
	return r, nil
}

// Plugin builds kubectl-cdevents into a folder.
func (k *Kit) Plugin(ctx context.Context, dir string) error {
	_, err := run(ctx, k.root, nil, "go", "build", "-o", filepath.Join(dir, "kubectl-cdevents"), "./cmd/kubectl-cdevents")
	return err
}

// Shell runs a command of a page in a shell that has kubectl, and the programs in a folder. It returns all that the
// command printed, also if it failed.
func (k *Kit) Shell(ctx context.Context, dir, command string, env map[string]string) (string, error) {
	path, err := k.kubectlPath(ctx)
	if err != nil {
		return "", err
	}
	if len(path) == 0 {
		path = []string{"PATH=" + os.Getenv("PATH")}
	}
	all := []string{"PATH=" + dir + string(filepath.ListSeparator) + strings.TrimPrefix(path[0], "PATH=")}
	for name, value := range env {
		all = append(all, name+"="+value)
	}
	out, err := run(ctx, k.root, all, "sh", "-c", "exec 2>&1; "+command+"; printf '\\n%s' $?")
	if err != nil {
		return "", err
	}
	last := strings.LastIndexByte(out, '\n')
	if status := out[last+1:]; status != "0" {
		return out[:last], fmt.Errorf("%s: exit status %s\n%s", command, status, out[:last])
	}
	return out[:last], nil
}
