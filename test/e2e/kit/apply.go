package kit

import (
	"context"
	"fmt"
	"os"
)

// Apply applies YAML to a namespace, as "kubectl apply" does.
func (k *Kit) Apply(ctx context.Context, namespace, text string) error {
	file, err := os.CreateTemp("", "apply-*.yaml")
	if err != nil {
		return fmt.Errorf("making a file to apply: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // a temporary file, and what is left of it harms nobody
	if _, err := file.WriteString(text); err != nil {
		return fmt.Errorf("writing a file to apply: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("writing a file to apply: %w", err)
	}
	args := []string{"apply", "-n", namespace, "-f", file.Name()}
	program := "kubectl"
	if k.Own() {
		program, args = k.program, append([]string{"kubectl"}, args...)
	}
	if _, err := run(ctx, k.root, nil, program, args...); err != nil {
		return fmt.Errorf("applying to namespace %s: %w", namespace, err)
	}
	return nil
}
