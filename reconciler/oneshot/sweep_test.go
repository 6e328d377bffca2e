// SPDX-License-Identifier: Apache-2.0

package oneshot_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ktesting "k8s.io/client-go/testing"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	servingv1beta1 "knative.dev/serving/pkg/apis/serving/v1beta1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/oneshot"
)

// The API server forgets a list after some minutes, and a sweep may take an hour, as when sinks hang. So it lists
// everything before it looks at anything.
func TestSweepListsBeforeItLooks(t *testing.T) {
	c := newCluster(t, sourceTo("sink"))
	c.deploy()
	var looked atomic.Bool
	c.serving.PrependReactor("*", "services", func(a ktesting.Action) (bool, runtime.Object, error) {
		if a.GetVerb() == "get" {
			looked.Store(true)
			return false, nil, nil
		}
		if list, is := a.(ktesting.ListActionImpl); is && list.ListOptions.Continue == "" {
			svc := servingv1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "other"}}
			return true, &servingv1.ServiceList{ListMeta: metav1.ListMeta{Continue: "rest"}, Items: []servingv1.Service{svc}}, nil
		}
		if looked.Load() {
			return true, nil, apierrors.NewResourceExpired("the continue token is too old")
		}
		return false, nil, nil
	})
	must(t, c.core().Sweep(t.Context()))
	c.wants("on the second page", "sink created", "sink ready", "sink deployed", "sink published")
}

// A sweep reports an entry that cannot be read, and still counts what is pending in all others.
func TestSweepCountsInSpiteOfErrors(t *testing.T) {
	c := newCluster(t, sourceTo("sink"))
	c.deploy()
	must(t, c.core().Sweep(t.Context()))
	o := c.entry().DeepCopy()
	o.Status.Memory = "{"
	_, err := c.store.Update(t.Context(), o, metav1.UpdateOptions{})
	must(t, err)
	c.resolved = nil
	if err := c.core().Sweep(t.Context()); err == nil {
		t.Error("the sweep says nothing of it")
	}
	c.resolves("shop/sink of 1", "shop/sink of 1: 0 pending, some false, delivered true, ")
}

// A sweep finds what a look finds, and then reads nothing by name.
func TestSweepFindsWhatALookFinds(t *testing.T) {
	limit := lifecycle.DefaultRules.OutageAfter
	for what, change := range map[string]func(c *cluster){
		"nothing":   func(*cluster) {},
		"trouble":   func(c *cluster) { c.trouble(true) },
		"its limit": func(c *cluster) { c.trouble(true); c.ask(); c.later(limit) },
		"its end": func(c *cluster) {
			c.trouble(true)
			c.ask()
			c.later(limit)
			c.ask()
			c.trouble(false)
		},
		"a new Revision": func(c *cluster) {
			svc, err := c.serving.ServingV1().Services(cart.Namespace).Get(c.t.Context(), cart.Name, metav1.GetOptions{})
			must(c.t, err)
			shop{c.serving, c.t}.route(svc, 2)
		},
		"a deletion": func(c *cluster) {
			must(c.t, c.serving.ServingV1().Services(cart.Namespace).Delete(c.t.Context(), cart.Name, metav1.DeleteOptions{}))
		},
		"an end that is long ago": func(c *cluster) {
			must(c.t, c.serving.ServingV1().Services(cart.Namespace).Delete(c.t.Context(), cart.Name, metav1.DeleteOptions{}))
			c.ask()
			c.later(time.Hour)
		},
		"another Service of the same name": func(c *cluster) {
			svc, err := c.serving.ServingV1().Services(cart.Namespace).Get(c.t.Context(), cart.Name, metav1.GetOptions{})
			must(c.t, err)
			svc.UID = "uid-other"
			must(c.t, c.serving.Tracker().Update(servingv1.SchemeGroupVersion.WithResource("services"), svc, svc.Namespace))
		},
		"a domain": func(c *cluster) {
			d := &servingv1beta1.DomainMapping{ObjectMeta: metav1.ObjectMeta{Namespace: cart.Namespace, Name: "cart.example.org"}}
			d.Spec.Ref = duckv1.KReference{APIVersion: "serving.knative.dev/v1", Kind: "Service", Name: cart.Name}
			d.Status.Conditions = duckv1.Conditions{{Type: apis.ConditionReady, Status: corev1.ConditionTrue}}
			must(c.t, c.serving.Tracker().Add(d))
		},
		"a sink that is back": func(c *cluster) {
			c.answer("sink", 503)
			c.trouble(true)
			c.ask()
			c.later(limit)
			c.ask()
			c.answer("sink", 202)
			c.later(time.Hour)
		},
		"a source that wants the present state": func(c *cluster) {
			s := sourceTo("new")
			s.Spec.Replay = v1alpha1.ReplayCurrent
			c.sources = append(c.sources, s)
		},
		"a source that is gone": func(c *cluster) {
			c.answer("sink", 503)
			c.trouble(true)
			c.ask()
			c.later(limit)
			c.ask()
			c.sources = nil
		},
		"an entry to forget": func(c *cluster) { c.store.Annotate(c.entry().Name, v1alpha1.ForgetAnnotation, "true") },
	} {
		t.Run(what, func(t *testing.T) {
			by := func(find func(c *cluster)) (*cluster, string) {
				c := newCluster(t, sourceTo("sink"))
				c.deploy()
				c.ask()
				c.taken()
				change(c)
				find(c)
				out := fmt.Sprintf("sent %q, dropped %v", c.taken(), c.dropped)
				for _, e := range c.store.All() {
					out += fmt.Sprintf("; %s: %d, %d pending, due %v, %v, gone %v", e.Name, e.Status.Sequence, e.Status.Pending, e.Status.Due,
						e.Annotations, e.Status.Removed)
				}
				return c, out
			}
			sweep := func(c *cluster) { must(t, c.core().Sweep(t.Context())) }
			c, swept := by(sweep)
			t.Log(swept)
			if _, asked := by(func(c *cluster) { c.ask() }); swept != asked {
				t.Errorf("a sweep: %s, a look: %s", swept, asked)
			}
			sweep(c) // what it has found may lead to more
			c.later(lifecycle.DefaultRules.OutageAfter + 11*time.Minute)
			sweep(c)
			sweep(c)
			c.taken()
			writes := c.store.Writes()
			c.serving.ClearActions()
			sweep(c)
			for _, a := range c.serving.Actions() {
				if a.GetVerb() != "list" {
					t.Errorf("at rest, it reads %+v", a)
				}
			}
			if n := c.store.Writes() - writes; n > 0 || len(c.taken()) > 0 {
				t.Errorf("%d writes at rest", n)
			}
		})
	}
}

// Without a list, nothing is known to be at rest, and whatever is known by name is looked at.
func TestSweepWithoutAList(t *testing.T) {
	c := newCluster(t, sourceTo("sink"))
	c.deploy()
	c.ask()
	c.taken()
	c.trouble(true)
	c.ask()
	c.later(lifecycle.DefaultRules.OutageAfter)
	gone := errors.New("away")
	c.serving.PrependReactor("list", "routes", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, gone })
	if err := c.core().Sweep(t.Context()); !errors.Is(err, gone) {
		t.Errorf("the sweep says %v", err)
	}
	c.wants("in spite of that", "sink detected")
}

// A sweep lists what belongs to Services before the ledger. Otherwise, it would miss what is now as the ledger had it
// before another core wrote something.
func TestSweepListsTheLedgerLast(t *testing.T) {
	c := newCluster(t, sourceTo("sink"))
	c.deploy()
	ctx, routes := t.Context(), c.serving.ServingV1().Routes(cart.Namespace)
	svc, err := c.serving.ServingV1().Services(cart.Namespace).Get(ctx, cart.Name, metav1.GetOptions{})
	must(t, err)
	first, err := routes.Get(ctx, cart.Name, metav1.GetOptions{})
	must(t, err)
	shop{c.serving, t}.route(svc, 2)
	second, err := routes.Get(ctx, cart.Name, metav1.GetOptions{})
	must(t, err)
	c.ask()
	c.taken()
	core, settings, asked := c.core(), c.core().Settings, false
	core.Settings = func(ctx context.Context) (oneshot.Settings, error) {
		if !asked { // the sweep asks before it lists what belongs to Services
			asked = true
			_, err := routes.UpdateStatus(ctx, first, metav1.UpdateOptions{})
			must(t, err)
			c.ask() //nolint:contextcheck // it has that of the test
			c.wants("another core", "sink rolledback")
			_, err = routes.UpdateStatus(ctx, second, metav1.UpdateOptions{})
			must(t, err)
		}
		return settings(ctx)
	}
	must(t, core.Sweep(ctx))
	c.wants("all traffic is as before", "sink upgraded")
}

// Over random histories, sweeps and looks come to the same: one of two equal clusters is swept, the other one looked at.
func TestSweepsAndLooksAgree(t *testing.T) {
	get := func(c *cluster) *servingv1.Service {
		svc, err := c.serving.ServingV1().Services(cart.Namespace).Get(c.t.Context(), cart.Name, metav1.GetOptions{})
		if err != nil {
			return nil
		}
		return svc
	}
	resource := servingv1.SchemeGroupVersion.WithResource("services")
	steps := []struct {
		name string
		do   func(c *cluster, n int)
	}{
		{"later", func(c *cluster, n int) { c.later(time.Duration(n) * time.Second) }},
		{"much later", func(c *cluster, n int) { c.later(time.Duration(n) * time.Minute) }},
		{"trouble", func(c *cluster, _ int) {
			if get(c) != nil {
				c.trouble(true)
			}
		}},
		{"its end", func(c *cluster, _ int) {
			if get(c) != nil {
				c.trouble(false)
			}
		}},
		{"a Revision", func(c *cluster, _ int) {
			if svc := get(c); svc != nil {
				all, err := c.serving.ServingV1().Revisions(cart.Namespace).List(c.t.Context(), metav1.ListOptions{})
				must(c.t, err)
				shop{c.serving, c.t}.route(svc, len(all.Items)+1)
			}
		}},
		{"a deletion", func(c *cluster, n int) {
			if n%3 == 0 && get(c) != nil {
				must(c.t, c.serving.ServingV1().Services(cart.Namespace).Delete(c.t.Context(), cart.Name, metav1.DeleteOptions{}))
			}
		}},
		{"another UID", func(c *cluster, n int) {
			if svc := get(c); svc != nil && n%3 == 0 {
				svc.UID = types.UID(fmt.Sprintf("uid-%d", n))
				must(c.t, c.serving.Tracker().Update(resource, svc, svc.Namespace))
			}
		}},
		{"annotations", func(c *cluster, n int) {
			if svc := get(c); svc != nil {
				svc.Annotations = map[string]string{"cdevents.knative-cdevents.dev/commit-sha": fmt.Sprint(n), "x": "y"}
				svc.Labels = map[string]string{"team": fmt.Sprint(n % 3)}
				must(c.t, c.serving.Tracker().Update(resource, svc, svc.Namespace))
			}
		}},
		{"a sink that is away", func(c *cluster, _ int) { c.answer("sink", 503) }},
		{"a sink that is back", func(c *cluster, _ int) { c.answer("sink", 202) }},
		{"a source", func(c *cluster, n int) {
			s := sourceTo(fmt.Sprint("new-", n%3))
			if n%2 == 0 {
				s.Spec.Replay = v1alpha1.ReplayCurrent
			}
			s.CreationTimestamp = metav1.NewTime(c.now)
			for i := range c.sources {
				if c.sources[i].Name == s.Name {
					s = c.sources[i].DeepCopy()
					s.Generation++
					s.Status.ObservedGeneration = s.Generation
					c.sources[i] = s
					return
				}
			}
			c.sources = append(c.sources, s)
		}},
		{"no source", func(c *cluster, n int) {
			if n%2 == 0 && len(c.sources) > 0 {
				c.sources = c.sources[1:]
			}
		}},
	}
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 7))
		swept, asked := newCluster(t, sourceTo("sink")), newCluster(t, sourceTo("sink"))
		var history []string
		both := func(f func(c *cluster)) { f(swept); f(asked) }
		both(func(c *cluster) { c.random = func() float64 { return 0.5 }; c.deploy() })
		for range 25 {
			n, step := 1+random.IntN(90), steps[random.IntN(len(steps))]
			history = append(history, fmt.Sprintf("%s %d", step.name, n))
			both(func(c *cluster) { step.do(c, n) })
			if random.IntN(3) == 0 {
				continue
			}
			history = append(history, "LOOK")
			must(t, swept.core().Sweep(t.Context()))
			_, err := asked.core().Process(t.Context(), cart)
			must(t, err)
			tell := func(c *cluster) (out string) {
				got := c.taken()
				slices.Sort(got)
				out = fmt.Sprintf("sent %q, dropped %v", got, c.dropped)
				for _, e := range c.store.All() {
					if e.Annotations[v1alpha1.WakeAnnotation] != "" {
						e.Annotations[v1alpha1.WakeAnnotation] = "some time" // attempts are spread at random
					}
					out += fmt.Sprintf("; %s: %d, %d pending, due %v, %v, gone %v", e.Name, e.Status.Sequence, e.Status.Pending, e.Status.Due,
						e.Annotations, e.Status.Removed)
				}
				return out
			}
			if a, b := tell(swept), tell(asked); a != b {
				t.Errorf("seed %d, after %q:\na sweep: %s\na look:  %s", seed, history, a, b)
				break
			}
		}
		if t.Failed() {
			return
		}
	}
}
