// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/oracle"
)

// TestUpgrade installs an older release, and upgrades it to that of this checkout while Services change, events are
// pending, a gate runs and shards are placed; and back. The commands are those of the documentation.
func TestUpgrade(t *testing.T) {
	head, from := released(t, headRelease), released(t, fromRelease)
	setConfig(t, "knative-serving", "config-autoscaler", map[string]string{"allow-zero-initial-scale": "true"})
	t.Run("Manifests", func(t *testing.T) {
		u := newUser(t, head)
		u.upgradesAndBack(from, []block{install, ready}, []block{upgrade})
	})
	t.Run("Helm", func(t *testing.T) {
		u := newUser(t, head)
		u.upgradesAndBack(from, []block{helmPush, helmInstall, ready}, []block{helmPush, helmUpgrade})
	})
	t.Run("OldDefinitions", func(t *testing.T) {
		u := newUser(t, head)
		u.keepsDefinitions(from)
	})
}

// late are sources whose sinks are dead most of the time.
var late = []string{"late-1", "late-2"}

// upgrading is an installation that is upgraded. Source "source" has a sink that always accepts, and others have one
// that is dead most of the time. The bytes of an event must be the same at all.
type upgrading struct {
	*storm
	user  *user
	late  []*sink
	stage *stage
}

// upgradesAndBack installs a release, upgrades it, and goes back to it.
func (u *user) upgradesAndBack(from *kit.Release, installs, upgrades []block) {
	u.Helper()
	services, pending := number(u.T, "E2E_SERVICES", 200), number(u.T, "E2E_PENDING", 2000)
	runs(u.T, from, u.folder, installs...)
	// With many Services on a busy machine, some take long to become ready, which is no incident here.
	u.must(suite.Controller.Configure(u.Context(), "config-cdevents", map[string]string{"incident-outage-after": "1h"}))
	c := &upgrading{storm: newStorm(u.T), user: u}
	for _, name := range late {
		c.late = append(c.late, c.serve(name))
		c.source(name, service(name))
	}
	c.fault(`{"status":503}`)
	c.stage = newStage(u.T)

	began := time.Now()
	var names []string
	for i := range services {
		names = append(names, fmt.Sprintf("s-%04d", i))
	}
	c.deployEach(atOnce, func(name string) *servingv1.Service { return podless(c.ns, name) }, names...)
	// Five events of each Service are pending now, for each late sink.
	rounds := max(1, (pending/len(late)-5*services+services-1)/services)
	c.moves(rounds)
	c.delivers("source")
	say("%s: made %d Services and moved the traffic of each %d times in %s", u.Name(), services, rounds, took(began))

	c.goes("upgrade", u.r, upgrades, len(late)*services*(5+rounds))
	c.fault(`{"status":503}`)
	c.moves(1)
	c.goes("way back", from, upgrades, len(late)*services)

	c.stage.stop()
	// Whatever only one of the two has goes, too: applying a release removes nothing.
	u.uninstallsManifests()
	execute(u.T, from, u.folder, "uninstall the older one", "kubectl delete --ignore-not-found -f $RELEASE/release.yaml")
	u.nothingIsLeft(c.scene, c.stage.scene)
}

// goes changes the release while traffic moves, and as many events are pending. They arrive then, with the bytes that
// the release before gave them.
func (c *upgrading) goes(what string, to *kit.Release, upgrades []block, pending int) {
	c.Helper()
	var owed int64
	c.must(kit.Wait(c.Context(), 2*time.Minute, "what is pending", func(ctx context.Context) error {
		var err error
		if owed, err = c.owed(ctx, late...); err == nil && owed < int64(pending) {
			return kit.NotYet("%d events, want %d", owed, pending)
		}
		return err
	}))
	over := c.blow(15, time.Second)
	began := time.Now()
	runs(c.T, to, c.user.folder, upgrades...)
	c.must(suite.Controller.WaitAvailable(c.Context()))
	runs(c.T, to, c.user.folder, ready)
	over()
	say("%s: the %s took %s, with %d events pending", c.Name(), what, took(began), owed)
	c.stage.unchanged()
	c.delivers("source")
	c.judge(c.sink, 2*time.Minute)

	began = time.Now()
	c.fault(`{}`)
	c.delivers(late...)
	say("%s: after the %s, the events that were pending arrived within %s", c.Name(), what, took(began))
	for _, k := range c.late {
		c.judge(k, 2*time.Minute)
	}
	c.sameAtAll()
}

// fault sets the answer of the late sinks.
func (c *upgrading) fault(answer string) {
	c.Helper()
	for _, k := range c.late {
		c.must(k.fault(c.Context(), answer))
	}
}

// moves moves the traffic of each Service as many times, some at once.
func (c *upgrading) moves(rounds int) {
	c.Helper()
	for range rounds {
		var all errgroup.Group
		all.SetLimit(atOnce)
		for _, name := range c.names {
			request := c.next(name)
			all.Go(func() error {
				if err := request(c.Context()); err != nil {
					return err
				}
				return c.inForce(c.Context(), name)
			})
		}
		c.must(all.Wait())
	}
}

// owed returns how many events sources have to deliver.
func (c *upgrading) owed(ctx context.Context, sources ...string) (int64, error) {
	var sum int64
	for _, source := range sources {
		got, err := suite.Ours.CDEventSources(c.ns).Get(ctx, source, metav1.GetOptions{})
		if err != nil {
			return 0, fmt.Errorf("asking what is pending: %w", err)
		}
		sum += got.Status.Pending
	}
	return sum, nil
}

// delivers waits until sources have delivered everything.
func (c *upgrading) delivers(sources ...string) {
	c.Helper()
	c.must(kit.Wait(c.Context(), 10*time.Minute, "the events of "+strings.Join(sources, ", "), func(ctx context.Context) error {
		owed, err := c.owed(ctx, sources...)
		if err == nil && owed > 0 {
			time.Sleep(time.Second)
			return kit.NotYet("%d are pending", owed)
		}
		return err
	}))
}

// sameAtAll compares the bytes of each event at the sinks, and of each attempt.
func (c *upgrading) sameAtAll() {
	c.Helper()
	var all []oracle.Event
	sinks := append([]*sink{c.sink}, c.late...)
	for _, k := range sinks {
		events, err := k.events(c.Context())
		c.must(err)
		for _, e := range events {
			all = append(all, received(e))
		}
	}
	v := oracle.Judge(c.history.Lives(), all)
	for _, altered := range v.Altered {
		c.Errorf("another sink, or an earlier attempt, had other bytes: %s", altered)
	}
	say("%s: %d events at %d sinks, %d deliveries more than that; altered %d", c.Name(), v.Events, len(sinks), v.Duplicates, len(v.Altered))
}

// keepsDefinitions runs the programs of this checkout with the definitions of an older release, and then with its own.
func (u *user) keepsDefinitions(from *kit.Release) {
	u.Helper()
	runs(u.T, from, u.folder, install, ready)
	u.s = newScene(u.T)
	u.s.source("source", service("sink"))
	u.s.deploy("shop")
	want := u.s.sink.exactly(u.T, birth)

	raw, err := os.ReadFile(filepath.Join(u.r.Folder, "release.yaml"))
	u.must(err)
	documents := strings.Split(string(raw), "\n---\n")
	rest := slices.DeleteFunc(slices.Clone(documents), func(d string) bool {
		return strings.Contains("\n"+d, "\nkind: CustomResourceDefinition\n")
	})
	if len(rest) == len(documents) {
		u.Fatal("the release has no definitions")
	}
	file := filepath.Join(u.folder, "programs.yaml")
	u.must(os.WriteFile(file, []byte(strings.Join(rest, "\n---\n")), 0o600)) //nolint:gosec // in a folder of this test
	execute(u.T, u.r, u.folder, "all but the definitions", "kubectl apply -f "+file)
	if err := suite.Controller.WaitAvailable(u.Context()); err != nil {
		u.Errorf("with definitions of the older release: %v\n%s", err, suite.Controller.Log(u.Context(), 20))
	} else {
		u.changesShop("two", len(want)+2)
		say("%s: the programs run with the older definitions", u.Name())
	}

	runs(u.T, u.r, u.folder, upgrade, ready)
	u.changesShop("three", len(want)+4)
	u.uninstallsManifests()
	u.s.noTrace()
	u.nothingIsLeft(u.s)
}

// changesShop releases another version of Service shop, and waits until its sink has as many events.
func (u *user) changesShop(to string, events int) {
	u.Helper()
	u.must(suite.Services.Update(u.Context(), u.s.ns, "shop", func(svc *servingv1.Service) { kit.SetVersion(svc, to) }))
	want := slices.Clone(birth)
	for len(want) < events {
		want = append(want, revisionReady, upgraded)
	}
	u.s.sink.exactly(u.T, want)
}
