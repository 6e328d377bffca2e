// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// many are environments that come and go at once: managed resources without a composite.
type many struct {
	platform
	size int
	// told are the types of their events in the order of arrival, and last is when the last one arrived, by the name of
	// the environment.
	told map[string][]string
	last map[string]time.Time
}

// many creates and deletes that many environments at once.
func (p platform) many(n int) {
	p.Helper()
	c := many{platform: p, size: n}
	before := c.memory()
	of := suite.Dynamic.Resource(kit.NopResources).Namespace(p.ns)
	ready := []any{map[string]any{"time": "1s", "conditionType": "Ready", "conditionStatus": "True", "conditionReason": "Available"}}
	began := time.Now()
	var all errgroup.Group
	all.SetLimit(20)
	for i := range n {
		all.Go(func() error {
			spec := map[string]any{"forProvider": map[string]any{"conditionAfter": ready}}
			o := kit.NewObject(kit.NopResources, "NopResource", p.ns, fmt.Sprintf("many-%03d", i), spec)
			o.SetLabels(map[string]string{"many": "true"})
			_, err := of.Create(p.Context(), o, metav1.CreateOptions{})
			return err
		})
	}
	p.must(all.Wait())
	declared := took(began)
	c.wait(provisioned)
	announced := c.latest().Sub(began)
	say("%d environments were declared in %s, and all of their %d events had arrived after %s, at most %s after the provider said that they were ready",
		n, declared, 2*n, announced.Round(100*time.Millisecond), c.behind())
	during := c.memory()

	began = time.Now()
	p.must(of.DeleteCollection(p.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "many=true"}))
	c.wait(append(provisioned, environmentDeleted))
	say("they were deleted, and this was announced, in %s", c.latest().Sub(began).Round(100*time.Millisecond))
	say("memory of the replicas in MiB: %s before, %s with the environments, %s after", before, during, c.memory())
}

// memory says how much memory each replica of the controller has, in MiB.
func (c many) memory() string {
	c.Helper()
	bytes, err := suite.Controller.Exported(c.Context(), "process_resident_memory_bytes")
	c.must(err)
	var all []string
	for _, pod := range slices.Sorted(maps.Keys(bytes)) {
		all = append(all, fmt.Sprintf("%.0f", bytes[pod]/(1<<20)))
	}
	return strings.Join(all, "/")
}

// wait waits until each of the many environments has told exactly these events, in this order, and no other has.
func (c *many) wait(want []string) {
	c.Helper()
	c.must(kit.Wait(c.Context(), 6*time.Minute, "the events of many environments", func(ctx context.Context) error {
		if err := c.read(ctx); err != nil {
			return err
		}
		done := 0
		for _, types := range c.told {
			if len(types) >= len(want) {
				done++
			}
		}
		if done < c.size {
			time.Sleep(2 * time.Second) // the sink returns all events each time
			return kit.NotYet("%d of %d have told all", done, c.size)
		}
		return nil
	}))
	time.Sleep(still)
	c.must(c.read(c.Context()))
	for name, types := range c.told {
		if !slices.Equal(types, want) {
			c.Errorf("%s has told %s", name, strings.Join(types, ", "))
		}
	}
	if len(c.told) != c.size {
		c.Errorf("%d environments told something, not %d", len(c.told), c.size)
	}
}

func (c *many) read(ctx context.Context) error {
	all, err := c.sink.events(ctx)
	if err != nil {
		return err
	}
	c.told, c.last = map[string][]string{}, map[string]time.Time{}
	for _, e := range choose(all, accepted, at("/")) {
		if env := e.cd.CustomData.Environment; env != nil && env.Kind == "NopResource" {
			c.told[env.Name] = append(c.told[env.Name], e.Header.Get("Ce-Type"))
			c.last[env.Name] = e.Time
		}
	}
	return nil
}

// latest is when the last event of all arrived.
func (c *many) latest() time.Time {
	return slices.MaxFunc(slices.Collect(maps.Values(c.last)), time.Time.Compare)
}

// behind is how long after an environment was ready its last event arrived, at most. The provider's times are whole
// seconds.
func (c *many) behind() time.Duration {
	c.Helper()
	list, err := suite.Dynamic.Resource(kit.NopResources).Namespace(c.ns).List(c.Context(), metav1.ListOptions{})
	c.must(err)
	var most time.Duration
	for i := range list.Items {
		if told, ok := c.last[list.Items[i].GetName()]; ok {
			most = max(most, told.Sub(kit.ConditionSince(&list.Items[i], "Ready")))
		}
	}
	return most.Round(100 * time.Millisecond)
}
