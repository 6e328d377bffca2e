// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// suite is shared by all tests.
var suite struct {
	*kit.Kit
	// images that the tests deploy; next is another version of app
	receiver, app, next string
	// before holds the names of all objects before the controller was installed.
	before map[string]bool
	audit  *auditLog
	// runs records which CustomRuns referred to a gate, even after their deletion.
	runs *kit.GateRuns
	full bool
	// slots bounds how many tests run side by side: E2E_PARALLEL, or 3.
	slots chan struct{}
	// undisturbed is read-locked by each test that runs side by side with others, and locked to stop the controller.
	undisturbed sync.RWMutex
	// environments is locked by the test of environments that runs.
	environments sync.Mutex
	// installed says that the controller was installed before and stays, for a quick run of one test.
	installed bool
	// guest says that the cluster is shared: the controller and all namespaces but the tests' own belong to others. Only
	// tests that need no controller can run then.
	guest bool
	// releases says that the tests to run install releases themselves, and nothing is installed before.
	releases bool
	// remains removes what is shared by tests.
	remains []func()
}

func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := 1
	if err := prepare(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "preparing the end-to-end tests:", err)
	} else {
		code = m.Run()
		// Here, and not in a test: tests that run side by side end after all others.
		if err := nothingWasWritten(context.WithoutCancel(ctx)); err != nil {
			fmt.Fprintln(os.Stderr, "FAIL: what the controller wrote:", err)
			code = 1
		}
	}
	// Clean up after a signal too: the cluster may not be ours.
	if err := clean(context.WithoutCancel(ctx), code != 0); err != nil {
		fmt.Fprintln(os.Stderr, "cleaning up after the end-to-end tests:", err)
		code = 1
	}
	stop()
	os.Exit(code)
}

func prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 25*time.Minute) // a cold build of all images on a busy machine
	defer cancel()
	var err error
	if suite.Kit, err = kit.New(ctx); err != nil {
		return err
	}
	suite.full = os.Getenv("E2E_FULL") != ""
	slots, err := setting("E2E_PARALLEL", 3)
	if err != nil {
		return err
	}
	if kit.Patience, err = setting("E2E_PATIENCE", 1); err != nil {
		return err
	}
	suite.slots = make(chan struct{}, slots)
	if suite.guest = os.Getenv("E2E_GUEST") != ""; suite.guest {
		return nil
	}
	began := time.Now()
	if suite.receiver, err = suite.Image(ctx, "./test/apps/receiver"); err != nil {
		return err
	}
	if suite.app, err = suite.Image(ctx, "./test/apps/app"); err != nil {
		return err
	}
	if suite.next, err = suite.Image(ctx, "./test/apps/next/app"); err != nil {
		return err
	}
	say("built the images of the tests in %s", took(began))

	suite.releases = os.Getenv("E2E_RELEASES") != ""
	if suite.Own() && !suite.releases {
		if suite.audit, err = openAuditLog(ctx); err != nil {
			return err
		}
		suite.runs = kit.WatchGateRuns(context.WithoutCancel(ctx), suite.Dynamic)
	}
	if suite.installed = os.Getenv("E2E_INSTALLED") != ""; suite.installed {
		return suite.Controller.WaitAvailable(ctx)
	}
	// Remains of an earlier, killed run are not part of the initial state.
	if err := deleteNamespaces(ctx); err != nil {
		return err
	}
	if err := errors.Join(suite.Injector.Uninstall(ctx), suite.Serverless.Uninstall(ctx, kit.AsService), suite.Controller.Uninstall(ctx)); err != nil {
		return err
	}
	if suite.releases {
		return nil
	}
	if suite.before, err = objects(ctx); err != nil {
		return err
	}
	began = time.Now()
	if err := suite.Controller.Install(ctx); err != nil {
		return fmt.Errorf("%w\n%s", err, suite.Controller.Log(ctx, 40))
	}
	say("installed the controller in %s", took(began))
	return nil
}

func clean(ctx context.Context, failed bool) error {
	for _, remove := range suite.remains {
		remove()
	}
	if suite.Kit == nil || suite.guest {
		return nil
	}
	if failed && os.Getenv("E2E_KEEP") != "" {
		say("E2E_KEEP is set: the controller and the namespaces of the tests are kept for inspection")
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if suite.installed || suite.releases {
		return deleteNamespaces(ctx)
	}
	began := time.Now()
	if err := suite.Controller.Uninstall(ctx); err != nil {
		return err
	}
	say("uninstalled the controller in %s", took(began))
	return deleteNamespaces(ctx)
}

// sideBySide lets a test run together with others of its kind, after those that need the controller, its settings or the
// machine for themselves. It must not disturb what others see, nor depend on what the controller does for them.
func sideBySide(t *testing.T) {
	t.Helper()
	if !suite.full {
		return
	}
	t.Parallel()
	takeSlot(t)
	suite.undisturbed.RLock()
	t.Cleanup(suite.undisturbed.RUnlock)
}

// environmentsBySide is the same for tests of environments, of which one runs at a time: they share the providers. They
// may stop the controller, see withoutController.
func environmentsBySide(t *testing.T) {
	t.Helper()
	if !suite.full {
		return
	}
	t.Parallel()
	suite.environments.Lock()
	t.Cleanup(suite.environments.Unlock)
	takeSlot(t)
}

// takeSlot waits until another test may run, and takes its place until it ends. The flag -parallel cannot say this: a
// test that waits for another one would count.
func takeSlot(t *testing.T) {
	t.Helper()
	suite.slots <- struct{}{}
	t.Cleanup(func() { <-suite.slots })
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05")+"  "+format+"\n", args...)
}

func took(since time.Time) time.Duration { return time.Since(since).Round(100 * time.Millisecond) }
