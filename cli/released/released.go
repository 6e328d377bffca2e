// SPDX-License-Identifier: Apache-2.0

// Package released says which version of the plugin this is, and where the documents of that version are.
package released

import (
	"runtime/debug"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// Version is set when a release is built:
//
//	go build -ldflags "-X github.com/knative-cdevents/knative-cdevents/cli/released.Version=v0.1.0"
//
// Without it, the version is what Go stored in the program.
var Version string

// Devel is the version of a program that was not built from a release.
const Devel = "devel"

// documents is where the documents of all versions are: DOCUMENTS/VERSION/docs/PAGE.
const documents = "https://github.com/knative-cdevents/knative-cdevents/blob"

// Current returns the version of this program: that of a release, or Devel.
func Current() string {
	if Version != "" {
		return Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && IsRelease(info.Main.Version) {
		return info.Main.Version
	}
	return Devel
}

// IsRelease reports whether this is the version of a release, such as v0.1.0. The names that Go makes up for other
// commits are none.
func IsRelease(v string) bool {
	parsed, err := version.ParseSemantic(v)
	return err == nil && parsed.BuildMetadata() == "" && !strings.Contains(parsed.PreRelease(), "-")
}

// Docs returns the address of a page of the documents, such as delivery.md#order, as of this version.
func Docs(page string) string {
	at := Current()
	if !IsRelease(at) {
		at = "main"
	}
	return documents + "/" + at + "/docs/" + page
}

// Skew says in words how the versions of plugin and controller differ. It is fine if they fit together, or if that is
// not known.
func Skew(client, controller string) (text string, fine bool) {
	if !IsRelease(client) || !IsRelease(controller) {
		if client == controller {
			return "both are development builds; whether they are of the same commit is not known", true
		}
		return "one of them is a development build, so whether they fit together is not known", true
	}
	c, s := version.MustParseSemantic(client), version.MustParseSemantic(controller)
	newer, older := "the plugin is newer than the controller", "the plugin is older than the controller"
	switch {
	case c.EqualTo(s):
		return "the plugin and the controller have the same version", true
	case c.Major() != s.Major():
		return "their major versions differ, which is not supported; use the plugin of version " + controller, false
	case c.Minor() == s.Minor(), c.Minor() == s.Minor()+1, c.Minor()+1 == s.Minor():
		if c.GreaterThan(s) {
			return newer + " by less than two minor versions, which is supported", true
		}
		return older + " by less than two minor versions, which is supported; it does not show what is new", true
	case c.GreaterThan(s):
		return newer + " by two minor versions or more, which is not supported; use the plugin of version " + controller, false
	}
	return older + " by two minor versions or more, which is not supported; use the plugin of version " + controller, false
}
