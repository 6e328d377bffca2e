// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestMountsBelowGoesDeepestFirstAndLastFirst(t *testing.T) {
	t.Parallel()
	const table = `/dev/vda / ext4 rw 0 0
overlay /state/run/rootfs overlay rw 0 0
tmpfs /state/kubelet/pods/a/v tmpfs rw 0 0
shm /state/run/rootfs overlay rw 0 0
tmpfs /state2/x tmpfs rw 0 0
tmpfs /state/with\040blank/x tmpfs rw 0 0
broken
`
	want := []string{"/state/kubelet/pods/a/v", "/state/with blank/x", "/state/run/rootfs", "/state/run/rootfs"}
	if got := mountsBelow(table, "/state"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestParseListenerTakesOnlyListeningSockets(t *testing.T) {
	t.Parallel()
	const rest = " 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 0 100 0 0 10 0"
	l, ok := parseListener("   0: 01001EAC:192B" + rest)
	if !ok || l.Port != 6443 || l.inode != "12345" || l.any {
		t.Errorf("got %+v, %v", l, ok)
	}
	if _, ok := parseListener(strings.Replace("   0: 0100007F:192B"+rest, " 0A ", " 01 ", 1)); ok {
		t.Error("a connection was parsed as a listener")
	}
	if _, ok := parseListener("  sl  local_address rem_address   st"); ok {
		t.Error("the heading was parsed as a listener")
	}
}

func TestTakenLooksAtTheAddress(t *testing.T) {
	t.Parallel()
	all := []Listener{{Port: 6443, addr: "01001EAC"}, {Port: 2379, addr: "00000000", any: true}}
	for _, c := range []struct {
		ip   [4]byte
		port int
		want bool
	}{
		{[4]byte{172, 30, 0, 1}, 6443, true},
		{[4]byte{127, 0, 0, 1}, 6443, false},
		{[4]byte{127, 0, 0, 1}, 2379, true},
		{[4]byte{127, 0, 0, 1}, 2380, false},
	} {
		if _, got := Taken(all, c.ip, c.port); got != c.want {
			t.Errorf("%v:%d: got %v", c.ip, c.port, got)
		}
	}
}

func TestMissingKeepsTheOrder(t *testing.T) {
	t.Parallel()
	got := missing(NodePackages, func(program string) bool { return program != "runc" && program != "nft" })
	if len(got) != 2 || got[0].Name != "runc" || got[1].Name != "nftables" {
		t.Errorf("got %v", got)
	}
	want := "install -y --no-install-recommends runc nftables"
	if args := strings.Join(AptArgs(got), " "); args != want {
		t.Errorf("got %q", args)
	}
}

func TestTablesInMatchesWholeNames(t *testing.T) {
	t.Parallel()
	got := tablesIn("table ip kube-proxy2\ntable ip6 kube-proxy\ntable ip other\n", []string{"ip kube-proxy", "ip6 kube-proxy"})
	if !reflect.DeepEqual(got, []string{"ip6 kube-proxy"}) {
		t.Errorf("got %q", got)
	}
}

// tree makes a cgroup tree of plain files.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestCgroupsOfVersion2Delegate(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"cgroup.controllers": "cpu memory rdma\n", "ours/cgroup.controllers": "cpu memory\n"})
	c := Cgroups{mount: root, name: "ours"}
	if !c.V2() {
		t.Fatal("not recognised")
	}
	if err := c.Make(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{root, filepath.Join(root, "ours")} {
		// A plain file keeps the last write.
		got, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
		if err != nil || string(got) != "+memory" {
			t.Errorf("%s: %q, %v", dir, got, err)
		}
	}
}

func TestCgroupsOfVersion1HaveABranchInEachHierarchy(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{
		"cpuset/cpuset.cpus": "0-1\n", "cpuset/cpuset.mems": "0\n", "memory/x": "",
		"cpuset/ours/cpuset.cpus": "\n", "cpuset/ours/cpuset.mems": "\n",
		"memory/ours/pod7d1f/cgroup.procs": "7\n9\n", "cpuset/ours/pod7d1f/cgroup.procs": "9\n",
	})
	c := Cgroups{mount: root, name: "ours"}
	if err := c.Make(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "cpuset/ours/cpuset.cpus"))
	if err != nil || string(got) != "0-1\n" {
		t.Errorf("cpuset: %q, %v", got, err)
	}
	if pids := c.PIDs(); !reflect.DeepEqual(pids, []int{7, 9}) {
		t.Errorf("processes: %v", pids)
	}
	if one, none := c.PodPIDs("7d1f"), c.PodPIDs("7d1"); !reflect.DeepEqual(one, []int{7, 9}) || len(none) > 0 {
		t.Errorf("processes of a pod: %v, and of one that is not there: %v", one, none)
	}
	groups := c.Groups()
	if len(groups) != 4 || !strings.HasSuffix(groups[0], "pod7d1f") || strings.HasSuffix(groups[3], "pod7d1f") {
		t.Errorf("groups: %q", groups)
	}
}
