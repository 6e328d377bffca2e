// SPDX-License-Identifier: Apache-2.0

// Package build turns pinned Go modules into the binaries and images of the cluster.
//
// Invariant: the result of a build depends only on its key: the part's go.mod and go.sum, the packages, the
// flags and the Go version. A build with a known key is never repeated, and no build changes the checkout.
package build

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/store"
)

// Command is one run of "go build".
type Command struct {
	// Out names the binary if it differs from the package path; only for a single package.
	Out string
	// LDFlags may contain $VERSION, such as v1.36.3, and $MINOR, such as 36: the version that the part pins.
	LDFlags  string
	Packages []string
}

// Unit is a set of binaries that are built and stored together.
type Unit struct {
	Name string
	// Part is the folder below parts/ whose go.mod pins the versions; Choose may have replaced it by another one.
	Part     string
	Commands []Command
}

const (
	small = "-s -w"
	// Knative rejects an API server without a version, so link one in, as a release does.
	kubernetesFlags = small +
		" -X k8s.io/component-base/version.gitVersion=$VERSION" +
		" -X k8s.io/component-base/version.gitMajor=1" +
		" -X k8s.io/component-base/version.gitMinor=$MINOR" +
		" -X k8s.io/component-base/version.gitTreeState=clean"
)

// The units of a cluster. ControlPlane alone is enough for Go tests that need an API server and no node.
var (
	ControlPlane = Unit{Name: "controlplane", Part: "kubernetes", Commands: []Command{
		{LDFlags: kubernetesFlags, Packages: []string{"k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes/cmd/kubectl"}},
		{LDFlags: small, Out: "etcd", Packages: []string{"go.etcd.io/etcd/server/v3"}},
	}}
	Node = Unit{Name: "node", Part: "kubernetes", Commands: []Command{
		{LDFlags: kubernetesFlags, Packages: []string{
			"k8s.io/kubernetes/cmd/kube-controller-manager",
			"k8s.io/kubernetes/cmd/kube-scheduler",
			"k8s.io/kubernetes/cmd/kubelet",
			"k8s.io/kubernetes/cmd/kube-proxy",
		}},
	}}
	Containerd = Unit{Name: "containerd", Part: "containerd", Commands: []Command{
		{LDFlags: small, Packages: []string{
			"github.com/containerd/containerd/v2/cmd/containerd",
			"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
			"github.com/containerd/containerd/v2/cmd/ctr",
			"github.com/containernetworking/plugins/plugins/main/ptp",
			"github.com/containernetworking/plugins/plugins/main/loopback",
			"github.com/containernetworking/plugins/plugins/ipam/host-local",
		}},
	}}
	Ko = Unit{Name: "ko", Part: "containerd", Commands: []Command{
		{LDFlags: small, Packages: []string{"github.com/google/ko"}},
	}}
	Pause = Unit{Name: "pause", Part: "pause", Commands: []Command{
		{LDFlags: small, Packages: []string{"."}},
	}}
	Targets = Unit{Name: "targets", Part: "targets", Commands: []Command{
		{LDFlags: small, Packages: []string{"."}},
	}}
	Registry = Unit{Name: "registry", Part: "registry", Commands: []Command{
		{LDFlags: small, Packages: []string{"github.com/distribution/distribution/v3/cmd/registry"}},
	}}
	CoreDNS = Unit{Name: "coredns", Part: "coredns", Commands: []Command{
		{LDFlags: small, Packages: []string{"github.com/coredns/coredns"}},
	}}
	Traefik = Unit{Name: "traefik", Part: "traefik", Commands: []Command{
		{LDFlags: small, Packages: []string{"github.com/traefik/traefik/v3/cmd/traefik"}},
	}}
	Crossplane = Unit{Name: "crossplane", Part: "crossplane", Commands: []Command{
		{
			// Crossplane compares its version with those that packages ask for.
			LDFlags:  small + " -X github.com/crossplane/crossplane/v2/internal/version.version=$VERSION",
			Packages: []string{"github.com/crossplane/crossplane/v2/cmd/crossplane"},
		},
	}}
	ProviderNop = Unit{Name: "provider-nop", Part: "provider-nop", Commands: []Command{
		{LDFlags: small, Packages: []string{"github.com/crossplane-contrib/provider-nop/cmd/provider"}},
	}}
	Compose = Unit{Name: "compose", Part: "compose", Commands: []Command{
		{LDFlags: small, Packages: []string{"."}},
	}}
)

// Parts returns the folder with the pinned modules. Go cannot embed a folder that is a module of its own, so Parts
// looks where the program was compiled, then around the working directory.
func Parts() (string, error) {
	var tried []string
	if _, file, _, ok := runtime.Caller(0); ok {
		tried = append(tried, filepath.Join(filepath.Dir(file), "..", "..", "parts"))
	}
	if dir, err := os.Getwd(); err == nil {
		for ; ; dir = filepath.Dir(dir) {
			tried = append(tried, filepath.Join(dir, "parts"), filepath.Join(dir, "test", "cluster", "parts"))
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	for _, dir := range tried {
		if store.Exists(filepath.Join(dir, "kubernetes", "go.mod")) {
			return filepath.Clean(dir), nil
		}
	}
	return "", fmt.Errorf("the pinned modules of the cluster (test/cluster/parts) were not found: run the program inside a checkout of knative-cdevents; looked in %s",
		strings.Join(tried[:1], ", "))
}

// partKey is the key of everything that is built from one part.
func partKey(dir, goVersion string, more ...string) (string, error) {
	inputs := []string{goVersion, runtime.GOARCH}
	// A part with a program of its own has a main.go; one that only pins modules has none.
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		data, err := os.ReadFile(filepath.Join(dir, name)) //nolint:gosec // a path inside the checkout
		if errors.Is(err, fs.ErrNotExist) && name != "go.mod" {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("reading what pins a part: %w", err)
		}
		inputs = append(inputs, string(data))
	}
	return store.Key(append(inputs, more...)...), nil
}

// flags returns everything in the commands that a build depends on.
func flags(commands []Command) string {
	var b strings.Builder
	for _, c := range commands {
		fmt.Fprintf(&b, "%s|%s|%s\n", c.Out, c.LDFlags, strings.Join(c.Packages, ","))
	}
	return b.String()
}
