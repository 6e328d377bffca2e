// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// TestInstall installs a release in each documented way, uses it, and uninstalls it as documented. Nothing is left.
func TestInstall(t *testing.T) {
	r := released(t, headRelease)
	t.Run("Manifests", func(t *testing.T) {
		u := newUser(t, r)
		u.runs(install)
		u.installsOptional()
		u.uses()
		u.uninstallsManifests()
		u.s.noTrace()
		u.nothingIsLeft(u.s)
	})
	t.Run("Helm", func(t *testing.T) {
		u := newUser(t, r)
		u.runs(helmPush, helmInstall)
		u.uses()
		u.runs(helmUninstall)
		u.definitionsAreLeft()
		u.runs(helmRemove)
		u.s.noTrace()
		u.nothingIsLeft(u.s)
	})
	t.Run("Kustomize", func(t *testing.T) {
		u := newUser(t, r)
		u.runs(kustomizeInstall)
		u.folder += "/knative-cdevents"
		u.uses()
		u.runs(kustomizeUninstall)
		u.s.noTrace()
		u.nothingIsLeft(u.s)
	})
}

// user does what documents say, in a folder.
type user struct {
	*testing.T
	r      *kit.Release
	folder string
	before inventory
	s      *scene
}

func newUser(t *testing.T, r *kit.Release) *user {
	t.Helper()
	u := &user{T: t, r: r, folder: t.TempDir()}
	var err error
	u.before, err = takeInventory(t.Context())
	u.must(err)
	for name := range u.before {
		if ours(name) {
			t.Fatalf("the controller is installed already: there is %s", name)
		}
	}
	removes(t, r)
	return u
}

// ours reports whether an object is of our kinds or in our namespace, or one of the two itself.
func ours(name string) bool {
	return strings.Contains(name, "."+v1alpha1.GroupName+" ") || strings.HasSuffix(name, "."+v1alpha1.GroupName) ||
		strings.Contains(name, " "+kit.Namespace+"/") || name == objectName("namespaces", "", "", kit.Namespace)
}

func (u *user) must(err error) {
	u.Helper()
	if err != nil {
		u.Fatal(err)
	}
}

func (u *user) runs(blocks ...block) {
	u.Helper()
	runs(u.T, u.r, u.folder, blocks...)
}

// perCluster finds the files that README.md uninstalls once per cluster. Those of a namespace come with -n.
var perCluster = regexp.MustCompile(`(?m)^kubectl delete --ignore-not-found -f \$RELEASE/(\S+)$`)

// foreign needs the Prometheus Operator, which the cluster of the tests does not have.
const foreign = "monitoring.yaml"

// installsOptional installs what a release has besides the controller.
func (u *user) installsOptional() {
	u.Helper()
	installed := 0
	for _, found := range perCluster.FindAllStringSubmatch(documented(u.T, uninstall), -1) {
		if file := found[1]; file != "release.yaml" && file != foreign {
			execute(u.T, u.r, u.folder, file, "kubectl apply -f $RELEASE/"+file)
			installed++
		}
	}
	if installed < 5 {
		u.Errorf("README.md uninstalls only %d optional files", installed)
	}
}

// uninstallsManifests runs the commands of README.md, which say to skip what is not installed.
func (u *user) uninstallsManifests() {
	u.Helper()
	lines := slices.Collect(strings.Lines(documented(u.T, uninstall)))
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, foreign) })
	execute(u.T, u.r, u.folder, uninstall.name, strings.Join(lines, ""))
}

// uses has a source and a sink, deploys a Service, and sees its events arrive.
func (u *user) uses() {
	u.Helper()
	began := time.Now()
	u.runs(ready)
	u.s = newScene(u.T)
	u.s.source("source", service("sink"))
	u.s.deploy("shop")
	for _, e := range u.s.sink.exactly(u.T, birth) {
		conforms(u.T, e, "0.5.1")
	}
	say("%s: ready, and the events of a Service arrived, after %s", u.Name(), took(began))
}

// nothingIsLeft compares all objects in the cluster with those of before, once the scenes are over.
func (u *user) nothingIsLeft(scenes ...*scene) {
	u.Helper()
	for _, s := range scenes {
		s.must(suite.DeleteNamespace(u.Context(), s.ns))
	}
	u.must(kit.Wait(u.Context(), 3*time.Minute, "the objects of before", func(ctx context.Context) error {
		all, err := takeInventory(ctx)
		if err != nil {
			return err
		}
		if changes := all.changes(u.before); len(changes) > 0 {
			return kit.NotYet("uninstalling %s", strings.Join(changes, ", "))
		}
		say("%s: uninstalled; the cluster has the same %d objects as before", u.Name(), len(all))
		return nil
	}))
}

// definitionsAreLeft checks what Helm keeps: the definitions, what is of our kinds, and our namespace with what is in it.
func (u *user) definitionsAreLeft() {
	u.Helper()
	kept := func(change string) bool {
		name, left := strings.CutPrefix(change, "left ")
		return left && (ours(name) || strings.Contains(name, u.s.ns))
	}
	definitions := 0
	u.must(kit.Wait(u.Context(), 2*time.Minute, "what Helm keeps, and nothing else", func(ctx context.Context) error {
		all, err := takeInventory(ctx)
		if err != nil {
			return err
		}
		changes := all.changes(u.before)
		others := slices.DeleteFunc(slices.Clone(changes), kept)
		if len(others) > 0 {
			return kit.NotYet("uninstalling %s", strings.Join(others, ", "))
		}
		u.Logf("Helm keeps\n  %s", strings.Join(changes, "\n  "))
		definitions = len(slices.DeleteFunc(changes, func(change string) bool {
			return !strings.HasPrefix(change, "left customresourcedefinitions.")
		}))
		return nil
	}))
	say("%s: Helm keeps %d definitions", u.Name(), definitions)
	_, err := suite.Ours.CDEventSources(u.s.ns).Get(u.Context(), "source", metav1.GetOptions{})
	u.s.must(err)
}
