package kit

import (
	"context"
	"fmt"
	"os"
)

// Apply applies YAML to a namespace, as "kubectl apply" does.
func (k *Kit) Apply(ctx context.Context, namespace, text string) error {
	return k.kubectl(ctx, text, "apply", "-n", namespace)
}

// Unapply deletes what Apply has made, as far as it is still there.
func (k *Kit) Unapply(ctx context.Context, namespace, text string) error {
	return k.kubectl(ctx, text, "delete", "--ignore-not-found", "-n", namespace)
}

// kubectl runs a command on YAML.
func (k *Kit) kubectl(ctx context.Context, text string, args ...string) error {
	file, err := os.CreateTemp("", "kubectl-*.yaml")
	if err != nil {
		return fmt.Errorf("making a file for kubectl: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // a temporary file, and what is left of it harms nobody
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
