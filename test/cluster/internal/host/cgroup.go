// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const cgroupMount = "/sys/fs/cgroup"

// Cgroups is the cluster's own group in each cgroup hierarchy: a single hierarchy with version 2, one for each
// controller with version 1.
type Cgroups struct {
	mount string
	name  string
}

// NewCgroups returns the group with the given name.
func NewCgroups(name string) Cgroups { return Cgroups{mount: cgroupMount, name: name} }

// V2 reports whether the machine has only the unified hierarchy.
func (c Cgroups) V2() bool {
	_, err := os.Stat(filepath.Join(c.mount, "cgroup.controllers"))
	return err == nil
}

func (c Cgroups) hierarchies() []string {
	if c.V2() {
		return []string{c.mount}
	}
	entries, err := os.ReadDir(c.mount)
	if err != nil {
		return nil
	}
	var dirs []string
	for _, e := range entries {
		// Some controllers share a hierarchy; their other names are symbolic links.
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(c.mount, e.Name()))
		}
	}
	return dirs
}

// Make creates the group. The kubelet refuses to start unless its root cgroup exists in every hierarchy.
func (c Cgroups) Make() error {
	if c.V2() {
		if err := delegate(c.mount); err != nil {
			return err
		}
	}
	for _, h := range c.hierarchies() {
		dir := filepath.Join(h, c.name)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // like the kernel's own
			if errors.Is(err, syscall.EROFS) {
				return fmt.Errorf("the cgroup tree at %s is read-only (inside a container? it needs --privileged): %w", h, err)
			}
			return fmt.Errorf("making the cluster's cgroup: %w", err)
		}
		for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
			if err := inherit(h, dir, f); err != nil {
				return err
			}
		}
	}
	if c.V2() {
		return delegate(filepath.Join(c.mount, c.name))
	}
	return nil
}

// inherit copies a cpuset file of version 1: a new group has an empty cpuset and accepts no process.
func inherit(parent, child, file string) error {
	want, err := os.ReadFile(filepath.Join(parent, file)) //nolint:gosec // the cgroup tree
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the machine's cpuset: %w", err)
	}
	have, err := os.ReadFile(filepath.Join(child, file)) //nolint:gosec // the cgroup tree
	if err != nil || strings.TrimSpace(string(have)) != "" {
		return err
	}
	if err := os.WriteFile(filepath.Join(child, file), want, 0o600); err != nil { //nolint:gosec // the cgroup tree
		return fmt.Errorf("filling the cluster's cpuset: %w", err)
	}
	return nil
}

// delegate enables the controllers that limit pods for the children of a version 2 group.
func delegate(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers")) //nolint:gosec // the cgroup tree
	if err != nil {
		return fmt.Errorf("reading the cgroup controllers: %w", err)
	}
	for _, name := range strings.Fields(string(data)) {
		if !slices.Contains([]string{"cpu", "cpuset", "memory", "pids", "io", "hugetlb"}, name) {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+name), 0o600); err != nil { //nolint:gosec // the cgroup tree
			return fmt.Errorf("enabling the cgroup controller %s in %s: %w", name, dir, err)
		}
	}
	return nil
}

// Groups lists the group and its descendants in all hierarchies, the deepest first.
func (c Cgroups) Groups() []string {
	var all []string
	for _, h := range c.hierarchies() {
		// Groups may vanish while they are listed; ignore errors.
		_ = filepath.WalkDir(filepath.Join(h, c.name), func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, p)
			}
			return nil
		})
	}
	slices.SortStableFunc(all, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	return all
}

// PIDs lists the processes in the group: those of the pods.
func (c Cgroups) PIDs() []int { return c.pids(func(string) bool { return true }) }

// PodPIDs lists the processes of one pod, or of one container as UID/ID.
func (c Cgroups) PodPIDs(uid string) []int {
	return c.pids(func(group string) bool { return strings.Contains(group+"/", "/pod"+uid+"/") })
}

func (c Cgroups) pids(of func(group string) bool) []int {
	var pids []int
	for _, g := range slices.DeleteFunc(c.Groups(), func(g string) bool { return !of(g) }) {
		data, err := os.ReadFile(filepath.Join(g, "cgroup.procs")) //nolint:gosec // the cgroup tree
		if err != nil {
			continue
		}
		for f := range strings.FieldsSeq(string(data)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// Remove deletes the group. The kernel frees it shortly after its last process has ended.
func (c Cgroups) Remove() error {
	var err error
	for range 50 {
		err = nil
		for _, g := range c.Groups() {
			if e := os.Remove(g); e != nil && !errors.Is(e, fs.ErrNotExist) {
				err = e
			}
		}
		if err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("removing the cluster's cgroups: %w", err)
}
