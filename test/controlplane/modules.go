// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The modules that contain the CRDs. Their versions come from go.mod, so there are no copies to update.
const (
	product    = "github.com/knative-cdevents/knative-cdevents"
	serving    = "knative.dev/serving"
	networking = "knative.dev/networking"
	eventing   = "knative.dev/eventing"
	pipeline   = "github.com/tektoncd/pipeline"
)

// servingCRDs returns the files with the CRDs of Knative Serving.
func servingCRDs(ctx context.Context) ([]string, error) {
	var all []string
	for module, pattern := range map[string]string{
		serving:    "config/core/300-resources/*.yaml",
		networking: "config/*.yaml",
	} {
		dir, err := moduleDir(ctx, module)
		if err != nil {
			return nil, err
		}
		paths, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, fmt.Errorf("looking for the CRDs of %s: %w", module, err)
		}
		if len(paths) == 0 {
			return nil, fmt.Errorf("module %s has no %s: has its layout changed?", module, pattern)
		}
		all = append(all, paths...)
	}
	return all, nil
}

// tektonCRD returns the file with the CRD for CustomRuns, from the release that test/cluster installs.
func tektonCRD(ctx context.Context) (string, error) {
	dir, err := partDir(ctx, "pipeline", pipeline)
	return filepath.Join(dir, "config", "300-crds", "300-customrun.yaml"), err
}

// eventingCRDs returns the files with some CRDs of Knative Eventing, from the release that test/cluster installs.
func eventingCRDs(ctx context.Context) ([]string, error) {
	dir, err := partDir(ctx, "eventing", eventing)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, name := range []string{"apiserversource", "broker", "pingsource", "trigger"} {
		all = append(all, filepath.Join(dir, "config", "core", "resources", name+".yaml"))
	}
	return all, nil
}

// partDir returns the source folder of a module in the version that a part of test/cluster has.
func partDir(ctx context.Context, part, module string) (string, error) {
	root, err := Root(ctx)
	if err != nil {
		return "", err
	}
	in := filepath.Join(root, "test", "cluster", "parts", part)
	dir, err := output(ctx, in, "list", "-m", "-f", "{{.Dir}}", module)
	if err == nil && dir == "" {
		if _, err = output(ctx, in, "mod", "download", module); err == nil {
			dir, err = output(ctx, in, "list", "-m", "-f", "{{.Dir}}", module)
		}
	}
	if err != nil {
		return "", fmt.Errorf("finding module %s: %w", module, err)
	}
	return dir, nil
}

// Root returns the folder of this module.
func Root(ctx context.Context) (string, error) { return moduleDir(ctx, product) }

// moduleDir returns the source folder of a module that go.mod requires.
func moduleDir(ctx context.Context, module string) (string, error) {
	dir, err := output(ctx, "", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return "", fmt.Errorf("finding module %s: %w", module, err)
	}
	if dir == "" {
		return "", fmt.Errorf("module %s is not downloaded: run \"go mod download %s\"", module, module)
	}
	return dir, nil
}

// output runs the go command and returns its output. Progress goes to the user.
func output(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
