// SPDX-License-Identifier: Apache-2.0

// Package host deals with the machine: the packages that must be installed, and what on it belongs to the cluster.
//
// Invariant: it removes only what has the cluster's own names or paths; it never guesses.
package host

import (
	"os/exec"
	"slices"
	"strings"
)

// Package is a Debian package, with a program that shows that it is installed.
type Package struct {
	Name    string
	Program string
	Why     string
}

// NodePackages are needed by every node, the others only for certain parts.
var (
	NodePackages = []Package{
		{Name: "runc", Program: "runc", Why: "runs containers; built from source it would lack seccomp"},
		{Name: "iproute2", Program: "ip", Why: "makes the link that carries the node's address"},
		{Name: "nftables", Program: "nft", Why: "kube-proxy writes its rules with it"},
		{Name: "iptables", Program: "iptables", Why: "the kubelet looks for it"},
		{Name: "conntrack", Program: "conntrack", Why: "kube-proxy forgets stale connections with it"},
	}
	PrometheusPackages = []Package{
		{Name: "prometheus", Program: "prometheus", Why: "stores the metrics that the tests and the demo ask for"},
	}
	TektonPackages = []Package{
		{Name: "busybox-static", Program: "busybox", Why: "the shell in which the scripts of Tekton's steps run"},
	}
	JavaPackages = []Package{
		{Name: "openjdk-17-jdk-headless", Program: "jlink", Why: "compiles the tests' application for the JVM, and goes into its image"},
		{Name: "maven", Program: "mvn", Why: "builds the tests' application for the JVM"},
	}
	BrowserPackages = []Package{
		{Name: "chromium", Program: "chromium", Why: "shows the pages that the tests look at"},
		{Name: "nodejs", Program: "node", Why: "runs the tests that control the browser"},
		{Name: "npm", Program: "npm", Why: "installs what these tests are made of"},
	}
)

// SearchPath is the path for programs: some users' PATH has no sbin folders.
const SearchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Missing returns the packages whose program was not found.
func Missing(packages []Package) []Package {
	return missing(packages, find)
}

func missing(packages []Package, find func(string) bool) []Package {
	return slices.DeleteFunc(slices.Clone(packages), func(p Package) bool { return find(p.Program) })
}

// Program returns the full path of an installed program, or its bare name.
func Program(name string) string {
	for dir := range strings.SplitSeq(SearchPath, ":") {
		if path, err := exec.LookPath(dir + "/" + name); err == nil {
			return path
		}
	}
	return name
}

func find(name string) bool {
	if strings.Contains(Program(name), "/") {
		return true
	}
	_, err := exec.LookPath(name)
	return err == nil
}

// AptArgs returns the arguments of "apt-get" that install the packages.
func AptArgs(packages []Package) []string {
	args := []string{"install", "-y", "--no-install-recommends"}
	for _, p := range packages {
		args = append(args, p.Name)
	}
	return args
}
