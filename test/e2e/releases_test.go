// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// block names commands in a document, which tests run as users do.
type block struct{ document, name string }

var (
	install   = block{"README.md", "install"}
	uninstall = block{"README.md", "uninstall"}
	ready     = block{"docs/install.md", "ready"}
	upgrade   = block{"docs/install.md", "upgrade"}

	helmPush      = block{"docs/install.md", "helm-push"}
	helmInstall   = block{"docs/install.md", "helm-install"}
	helmUpgrade   = block{"docs/install.md", "helm-upgrade"}
	helmUninstall = block{"docs/install.md", "helm-uninstall"}
	helmRemove    = block{"docs/install.md", "helm-remove"}

	kustomizeInstall   = block{"docs/install.md", "kustomize-install"}
	kustomizeUninstall = block{"docs/install.md", "kustomize-uninstall"}
)

// headRelease makes the release of this checkout once, and fromRelease that of what E2E_FROM names.
var (
	headRelease = sync.OnceValues(func() (*kit.Release, error) { return makeRelease(suite.Path(), "head") })
	fromRelease = sync.OnceValues(func() (*kit.Release, error) {
		folder, err := suite.Checkout(context.Background(), os.Getenv("E2E_FROM"))
		if err != nil {
			return nil, err
		}
		suite.remains = append(suite.remains, func() { _ = os.RemoveAll(folder) })
		return makeRelease(folder, "from")
	})
)

func makeRelease(root, name string) (*kit.Release, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Minute) // a cold build on a busy machine
	defer cancel()
	r, err := suite.MakeRelease(ctx, root, "e2e/"+name)
	if err != nil {
		return nil, err
	}
	suite.remains = append(suite.remains, r.Close)
	say("made release %s of %s in %s", r.Version, name, took(began))
	return r, nil
}

// released returns a release. The test is skipped if TestMain has installed the controller of this checkout.
func released(t *testing.T, by func() (*kit.Release, error)) *kit.Release {
	t.Helper()
	if !suite.releases {
		t.Skip("it installs releases itself: make e2e-install, make e2e-upgrade")
	}
	r, err := by()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// documented returns commands of a document.
func documented(t *testing.T, b block) string {
	t.Helper()
	commands, err := suite.Documented(b.document, b.name)
	if err != nil {
		t.Fatal(err)
	}
	return commands
}

// runs runs documented commands in a folder, with a release.
func runs(t *testing.T, r *kit.Release, folder string, blocks ...block) {
	t.Helper()
	for _, b := range blocks {
		execute(t, r, folder, b.name, documented(t, b))
	}
}

// execute runs commands with a release, and says how long they took.
func execute(t *testing.T, r *kit.Release, folder, name, commands string) {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	out, err := r.Run(ctx, folder, commands)
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, suite.Controller.Log(context.WithoutCancel(t.Context()), 40))
	}
	say("%s: %s took %s", t.Name(), name, took(began))
	t.Logf("%s:\n%s", name, out)
}

// removes removes what a test that failed has left, unless it is to be kept for inspection.
func removes(t *testing.T, r *kit.Release) {
	t.Helper()
	commands := documented(t, uninstall)
	t.Cleanup(func() {
		if !t.Failed() || os.Getenv("E2E_KEEP") != "" {
			return
		}
		ctx := context.WithoutCancel(t.Context())
		if err := deleteNamespaces(ctx); err != nil {
			t.Error(err)
		}
		// Some of it may never have been there, such as a kind.
		if _, err := r.Run(ctx, t.TempDir(), "set +e\n"+commands+"\ntrue"); err != nil {
			t.Error(err)
		}
	})
}

// number reads how many of something a test is asked to make.
func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	n, err := setting(variable, otherwise)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// setting reads a number of at least 1 from the environment.
func setting(variable string, otherwise int) (int, error) {
	text := os.Getenv(variable)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s is %q; it must be a number, such as %d", variable, text, otherwise)
	}
	return n, nil
}
