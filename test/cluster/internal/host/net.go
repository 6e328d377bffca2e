// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
)

// Run runs a program and returns its standard output; an error contains its standard error.
func Run(ctx context.Context, stdin, name string, args ...string) (string, error) {
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, Program(name), args...) //nolint:gosec // fixed programs
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return out.String(), nil
}

// HasLink reports whether a network link exists.
func HasLink(name string) bool {
	_, err := net.InterfaceByName(name)
	return err == nil
}

// LinksWith lists the links that have an address: the machine's end of each pod's link has the gateway's.
func LinksWith(ip string) []string {
	all, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var found []string
	for _, l := range all {
		addrs, err := l.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.String() == ip {
				found = append(found, l.Name)
			}
		}
	}
	return found
}

// Tables returns which of the given nftables tables ("ip name") exist.
func Tables(ctx context.Context, want []string) ([]string, error) {
	out, err := Run(ctx, "", "nft", "list", "tables")
	if errors.Is(err, exec.ErrNotFound) {
		return nil, nil // without nft, the cluster created no tables
	}
	if err != nil {
		return nil, err
	}
	return tablesIn(out, want), nil
}

func tablesIn(list string, want []string) []string {
	have := map[string]bool{}
	for line := range strings.Lines(list) {
		have[strings.TrimPrefix(strings.TrimSpace(line), "table ")] = true
	}
	var found []string
	for _, w := range want {
		if have[w] {
			found = append(found, w)
		}
	}
	return found
}

// Sysctl reads a kernel setting by its path below /proc/sys.
func Sysctl(path string) (string, error) {
	b, err := os.ReadFile("/proc/sys/" + path) //nolint:gosec // fixed paths
	if err != nil {
		return "", fmt.Errorf("reading a kernel setting: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// SetSysctl writes a kernel setting.
func SetSysctl(path, value string) error {
	if err := os.WriteFile("/proc/sys/"+path, []byte(value), 0o600); err != nil {
		return fmt.Errorf("setting %s to %s: %w", path, value, err)
	}
	return nil
}
