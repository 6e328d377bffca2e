// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Own reports whether test/cluster made the cluster.
func (k *Kit) Own() bool { return k.program != "" }

// Image builds a Go program of this module and returns its image reference.
func (k *Kit) Image(ctx context.Context, path string) (string, error) {
	return k.image(ctx, k.root, path)
}

// EventDisplay returns the image of Knative Eventing's standard sink, which logs what it receives.
func (k *Kit) EventDisplay(ctx context.Context) (string, error) {
	const display = "knative.dev/eventing/cmd/event_display"
	if k.Own() {
		return k.image(ctx, "part:eventing", display)
	}
	return k.image(ctx, k.Path("test", "cluster", "parts", "eventing"), display)
}

func (k *Kit) image(ctx context.Context, dir, path string) (string, error) {
	var out string
	var err error
	if k.Own() {
		out, err = run(ctx, k.root, nil, k.program, "image", "-C", dir, path)
	} else {
		if os.Getenv("KO_DOCKER_REPO") == "" {
			return "", errors.New("set KO_DOCKER_REPO to a registry that you may push to and the cluster may pull from")
		}
		// ko has no -C option, and builds in the working directory.
		out, err = run(ctx, dir, nil, k.tool(), "ko", "build", "--base-import-paths", path)
	}
	if err != nil {
		return "", fmt.Errorf("building the image of %s: %w", path, err)
	}
	return strings.TrimSpace(out), nil
}

// localImage makes an image of a program of this machine, which a script of bash packs: $1 is the tar file to write, $2 a
// folder to make, and then come the arguments.
func (k *Kit) localImage(ctx context.Context, name, entrypoint, pack string, arguments ...string) (string, error) {
	if !k.Own() {
		return "", fmt.Errorf("an image of this machine's %s is for the cluster made by test/cluster", name)
	}
	dir, err := os.MkdirTemp("", name+"-")
	if err != nil {
		return "", fmt.Errorf("packing %s: %w", name, err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // a leftover temporary folder does no harm
	layer := filepath.Join(dir, "layer.tar")
	script := append([]string{"-c", pack, "bash", layer, filepath.Join(dir, "folder")}, arguments...)
	if _, err := run(ctx, dir, nil, "bash", script...); err != nil {
		return "", fmt.Errorf("packing %s: %w", name, err)
	}
	out, err := run(ctx, k.root, nil, k.program, "image", "--layer", layer, "--name", name, "--entrypoint", entrypoint)
	if err != nil {
		return "", fmt.Errorf("building an image of %s: %w", name, err)
	}
	return strings.TrimSpace(out), nil
}

func (k *Kit) tool() string { return k.Path(".ci", "tool") }

// Address returns the address of a part of the cluster made by test/cluster, such as "audit" or "ingress".
func (k *Kit) Address(ctx context.Context, name string) (string, error) {
	if !k.Own() {
		return "", fmt.Errorf("%s: only a cluster made by test/cluster has this address", name)
	}
	// While something is unhealthy, it exits with an error but still prints the status.
	out, err := run(ctx, k.root, nil, "sh", "-c", `"$0" status -o json || true`, k.program)
	if err != nil {
		return "", err
	}
	var status struct {
		Addresses []struct{ Name, Address string }
	}
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		return "", fmt.Errorf("reading the cluster's status: %w", err)
	}
	for _, a := range status.Addresses {
		if a.Name == name {
			return a.Address, nil
		}
	}
	return "", fmt.Errorf("the cluster's status has no %s", name)
}

// kubectlPath returns a PATH with kubectl, for ko.
func (k *Kit) kubectlPath(ctx context.Context) ([]string, error) {
	if !k.Own() {
		return nil, nil
	}
	dir, err := run(ctx, k.root, nil, k.program, "assets")
	if err != nil {
		return nil, err
	}
	return []string{"PATH=" + strings.TrimSpace(dir) + string(filepath.ListSeparator) + os.Getenv("PATH")}, nil
}
