// SPDX-License-Identifier: Apache-2.0

package node

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/host"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/proc"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/report"
)

func TestEmbeddedFilesAreComplete(t *testing.T) {
	t.Parallel()
	values := map[string]string{
		"CA": "ca", "Cert": "cert", "Key": "key", "Socket": "socket", "Resolv": "", "CNI": "cni", "Pause": "pause", "Runc": "runc", "Images": "images",
	}
	entries, err := files.ReadDir("files")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := render("/state", e.Name(), values)
		if err != nil {
			t.Error(err)
			continue
		}
		if filepath.Ext(e.Name()) == ".yaml" {
			var into map[string]any
			if err := yaml.UnmarshalStrict([]byte(text), &into); err != nil || len(into) == 0 {
				t.Errorf("%s: %v", e.Name(), err)
			}
		}
	}
	if _, err := render("/state", "kubelet.yaml", nil); err == nil {
		t.Error("a file with values missing was written")
	}
}

func TestUnixSocketsFitTheKernelsLimit(t *testing.T) {
	t.Parallel()
	const limit = 107
	n := &Node{dir: Dir}
	for _, p := range []string{n.socket(), n.socket() + ".ttrpc", n.path("kubelet", "pod-resources", "kubelet.sock")} {
		if len(p) > limit {
			t.Errorf("%s has %d bytes", p, len(p))
		}
	}
}

func TestNoFlagTurnsVerificationOff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certs, err := issueIn(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	daemons, err := plane{dir: dir, bin: "/bin", ip: "127.0.0.1", port: 1, etcdPort: 2, peerPort: 3, certs: certs}.daemons()
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{dir: dir, certs: certs}
	managers, err := n.managers("/bin")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range append(daemons, managers...) {
		for _, arg := range d.Args {
			if strings.Contains(arg, "insecure") || strings.Contains(arg, "token-auth") || strings.Contains(arg, "AlwaysAllow") || strings.Contains(arg, "http://") {
				t.Errorf("%s: %s", d.Name, arg)
			}
		}
	}
}

func issueIn(t *testing.T, dir string) (*certificates, error) {
	t.Helper()
	for _, d := range []string{"pki", "etc"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	return issue(filepath.Join(dir, "pki"), dir, "127.0.0.1", "https://127.0.0.1:1")
}

func TestNeedPackagesSaysHowToInstallThem(t *testing.T) {
	t.Parallel()
	err := NeedPackages(host.NodePackages[:1])
	for _, want := range []string{"runc", "seccomp", "deps --install", "apt-get install -y --no-install-recommends runc"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing from: %v", want, err)
		}
	}
}

func TestRemainsAreEmptyOnlyWithoutEntries(t *testing.T) {
	t.Parallel()
	if r := (Remains{}); !r.Empty() {
		t.Error("remains without any entry are not empty")
	}
	for _, r := range []Remains{
		{Processes: []proc.Process{{PID: 1}}},
		{Mounts: []string{"m"}},
		{NetNS: []string{"n"}},
		{Links: []string{"l"}},
		{Tables: []string{"t"}},
		{Cgroups: []string{"c"}},
	} {
		if r.Empty() || !strings.Contains(r.Counts(), " 1") {
			t.Errorf("overlooked: %s", r.Counts())
		}
	}
}

func TestAloneKeepsItsPorts(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	a, err := NewAlone(report.New(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.open(); err != nil {
		t.Fatal(err)
	}
	first, err := a.ports()
	if err != nil || first.API == 0 || first.API == first.Etcd || first.Etcd == first.Peer {
		t.Fatal(first, err)
	}
	if again, err := a.ports(); err != nil || again != first {
		t.Error(again, err)
	}
}
