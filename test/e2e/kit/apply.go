// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// webhookPatience is how long a webhook that has just been installed may take to answer.
const webhookPatience = 4 * time.Minute

// Apply applies YAML to a namespace, like "kubectl apply". It retries while a webhook is not available: on a busy machine, those of Tekton and
// Serving answer minutes after their pods are ready.
func (k *Kit) Apply(ctx context.Context, namespace, text string) error {
	return Wait(ctx, webhookPatience, "kubectl apply", func(ctx context.Context) error {
		err := k.kubectl(ctx, text, "apply", "-n", namespace)
		if err != nil && strings.Contains(err.Error(), "failed calling webhook") {
			return NotYet("%v", err)
		}
		return err
	})
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
