// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// dead is how long the sink accepts nothing.
const dead = 10 * time.Minute

// serverlessDead has a sink that is dead for ten minutes. Meanwhile, the demo's story happens, in which the controller
// wakes and sleeps again.
func serverlessDead(t *testing.T) {
	setConfig(t, "knative-serving", "config-autoscaler", map[string]string{"allow-zero-initial-scale": "true"})
	d := newDeadScene(t)
	d.must(suite.Serverless.WaitControllerAsleep(t.Context()))
	d.dies()
	d.changes()
	d.owes()
	t.Run("Story", serverlessStory)
	d.changes()
	d.lives()
}

// deadScene is a scene whose sink does not answer for a time.
type deadScene struct {
	*scene
	programs string
	since    time.Time
	// changed is how many Services were changed since then, of as many as there are.
	changed int
	want    map[string][]string
}

// newDeadScene creates a scene with a few Services.
func newDeadScene(t *testing.T) *deadScene {
	t.Helper()
	d := &deadScene{scene: newScene(t), programs: t.TempDir(), want: map[string][]string{}}
	d.must(suite.Plugin(t.Context(), d.programs))
	d.source("source", service("sink"))
	for i := range 4 {
		d.must(d.podless(t.Context(), d.name(i)))
		d.want[d.name(i)] = slices.Clone(birth)
	}
	d.allTold("the sink that dies", d.want)
	return d
}

func (d *deadScene) name(i int) string { return fmt.Sprintf("shop-%d", i) }

// plugged says whether the Service of the sink leads to it. The sink itself runs, and tells what it got.
func (d *deadScene) plugged(is bool) {
	d.Helper()
	app := "nothing"
	if is {
		app = "sink"
	}
	_, err := suite.Kube.CoreV1().Services(d.ns).Patch(d.Context(), "sink", types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"selector":{"app":%q}}}`, app), metav1.PatchOptions{})
	d.must(err)
}

// dies lets no connection to the sink succeed; one that exists gets errors.
func (d *deadScene) dies() {
	d.Helper()
	d.must(d.sink.fault(d.Context(), `{"status":503}`))
	d.plugged(false)
	d.since = time.Now()
}

// changes upgrades one more Service.
func (d *deadScene) changes() {
	d.Helper()
	name := d.name(d.changed)
	d.changed++
	d.must(moves(2, version("two"))(d.Context(), d.scene, name))
	d.want[name] = append(d.want[name], revisionReady, upgraded)
}

// What the plugin says of events that are owed.
var (
	retries = regexp.MustCompile(`retries: [1-9].*`)
	tried   = regexp.MustCompile(`an event was tried .*`)
)

// owes waits until the plugin says that events are owed, and why.
func (d *deadScene) owes() {
	d.Helper()
	say("after %s, the ledger owes %s", took(d.since), d.asks("kubectl cdevents list -n $NS", retries))
	say("kubectl cdevents why %s: %s", d.name(0), d.asks("kubectl cdevents why "+d.name(0)+" -n $NS", tried))
}

// asks runs a command until its output matches, and returns what does.
func (d *deadScene) asks(command string, match *regexp.Regexp) (found string) {
	d.Helper()
	d.must(kit.Wait(d.Context(), rung, command, func(ctx context.Context) error {
		// It also fails if it says that something is wrong.
		out, err := suite.Shell(ctx, d.programs, command, map[string]string{"NS": d.ns})
		if found = match.FindString(out); found == "" {
			time.Sleep(2 * time.Second)
			return kit.NotYet("it says %s (%v)", out, err)
		}
		return nil
	}))
	return found
}

// lives waits until the sink has been dead for long enough. Before it accepts events, it refuses them for a while.
func (d *deadScene) lives() {
	d.Helper()
	d.owes()
	if rest := dead - time.Since(d.since) - 2*time.Minute; rest > 0 {
		time.Sleep(rest)
	}
	d.plugged(true)
	d.changes()
	time.Sleep(max(0, dead-time.Since(d.since)))
	d.owes()
	say("the sink was dead for %s", took(d.since))
	d.must(d.sink.fault(d.Context(), `{}`))
	d.allTold("after ten minutes", d.want)
	all, err := d.sink.events(d.Context())
	d.must(err)
	refused := len(all) - len(choose(all, accepted))
	say("the sink refused %d requests and accepted %d, of which %d repeat an event byte by byte", refused, len(all)-refused, len(all)-refused-len(once(all)))
	if refused == 0 {
		d.Errorf("nothing was tried while the sink refused everything")
	}
}
