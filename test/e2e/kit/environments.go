// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// GrantEnvironments lets the controller read the kinds of environments that config/optional/environments names. It
// returns what was applied.
func (k Environments) GrantEnvironments(ctx context.Context) (applied string, err error) {
	files, err := filepath.Glob(k.Path("config", "optional", "environments", "*.yaml"))
	if err != nil {
		return "", fmt.Errorf("looking for the roles of environments: %w", err)
	}
	if len(files) == 0 {
		return "", errors.New("config/optional/environments has no manifests")
	}
	var all []string
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return "", fmt.Errorf("reading the roles of environments: %w", err)
		}
		all = append(all, string(data))
	}
	applied = strings.Join(all, "\n---\n")
	return applied, k.Apply(ctx, Namespace, applied)
}
