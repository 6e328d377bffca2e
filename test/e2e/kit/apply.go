// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"fmt"
	"os"
)

// Apply applies YAML to a namespace, like "kubectl apply".
func (k *Kit) Apply(ctx context.Context, namespace, text string) error {
	return k.kubectl(ctx, text, "apply", "-n", namespace)
}

// Unapply deletes what Apply created and still exists.
func (k *Kit) Unapply(ctx context.Context, namespace, text string) error {
	return k.kubectl(ctx, text, "delete", "--ignore-not-found", "-n", namespace)
}

// kubectl runs a kubectl command on YAML.
func (k *Kit) kubectl(ctx context.Context, text string, args ...string) error {
	file, err := os.CreateTemp("", "kubectl-*.yaml")
	if err != nil {
		return fmt.Errorf("making a file for kubectl: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // a leftover temporary file does no harm
	if _, err := file.WriteString(text); err != nil {
		return fmt.Errorf("writing a file for kubectl: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("writing a file for kubectl: %w", err)
	}
	args = append(args, "-f", file.Name())
	program := "kubectl"
	if k.Own() {
		program, args = k.program, append([]string{"kubectl"}, args...)
	}
	_, err = run(ctx, k.root, nil, program, args...)
	return err
}
