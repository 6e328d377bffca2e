// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// watched is a configuration of kubewatch: Serving's objects, and the Deployments that the rules of cdviz-collector read.
const watched = `
handler: {cloudevent: {url: %q}}
resource: {deployment: true}
customresources:
- {group: serving.knative.dev, version: v1, resource: services}
- {group: serving.knative.dev, version: v1, resource: routes}
- {group: serving.knative.dev, version: v1, resource: revisions}
`

// RunKubewatch runs a program of kubewatch on this machine, which sends objects to a URL, with its configuration and its
// log in a folder. Stop ends it.
func (k *Kit) RunKubewatch(ctx context.Context, program, dir, url string) (stop func() error, err error) {
	if err := os.WriteFile(filepath.Join(dir, ".kubewatch.yaml"), fmt.Appendf(nil, watched, url), 0o600); err != nil {
		return nil, fmt.Errorf("configuring kubewatch: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(dir, "kubewatch.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("making a file for kubewatch's log: %w", err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program)
	cmd.Env = append(os.Environ(), "KW_CONFIG="+dir, "LISTEN_ADDRESS=127.0.0.1:0")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting kubewatch: %w", err), log.Close())
	}
	return func() error {
		err := cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // a signal has ended it
		return errors.Join(err, log.Close())
	}, nil
}
