// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// RunFlagger installs the CRDs of the pinned Flagger, and runs Flagger itself as a program on this machine, with its
// log in a folder. Stop ends it, and removes the CRDs with all of their objects.
func (k *Kit) RunFlagger(ctx context.Context, dir string) (stop func(context.Context) error, err error) {
	prometheus, err := k.Prometheus.URL()
	if err != nil {
		return nil, err
	}
	part, program := k.Path("test", "cluster", "parts", "flagger"), filepath.Join(dir, "flagger")
	if _, err := run(ctx, part, []string{"CGO_ENABLED=0"}, "go", "build", "-o", program, "github.com/fluxcd/flagger/cmd/flagger"); err != nil {
		return nil, err
	}
	source, err := run(ctx, part, nil, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/fluxcd/flagger")
	if err != nil {
		return nil, err
	}
	crds, err := os.ReadFile(filepath.Join(strings.TrimSpace(source), "artifacts", "flagger", "crd.yaml"))
	if err != nil {
		return nil, fmt.Errorf("reading Flagger's CRDs: %w", err)
	}
	if err := k.Apply(ctx, "default", string(crds)); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "flagger.log"))
	if err != nil {
		return nil, fmt.Errorf("making a file for Flagger's log: %w", err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, "-kubeconfig", os.Getenv("KUBECONFIG"), "-mesh-provider", "knative", //nolint:gosec // built above
		"-metrics-server", prometheus, "-port", "0", "-log-level", "info")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting Flagger: %w", err), log.Close())
	}
	return func(ctx context.Context) error {
		err := cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // a signal has ended it
		return errors.Join(err, log.Close(), k.Unapply(ctx, "default", string(crds)))
	}, nil
}
