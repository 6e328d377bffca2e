// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

const (
	// lease is that of sidecars. After two thirds of it without an answer, a strict one refuses requests.
	lease = 10 * time.Second
	// refusesAfter is when it does so for sure, on a busy machine.
	refusesAfter = lease + 2*time.Second
	// brokenFor is how long connections from before the cut may swallow requests, whose fate is unknown then.
	brokenFor = 25 * time.Second
)

// TestSidecarNetwork cuts a strict member off from all other pods, as if its node were.
func TestSidecarNetwork(t *testing.T) {
	onlyInFull(t)
	if suite.guest || !suite.Own() {
		t.Skip("it changes the network of the cluster made by test/cluster")
	}
	withInjector(t)
	t.Run("Mended", func(t *testing.T) {
		c := newCutOff(t)
		c.cut()
		time.Sleep(brokenFor + 20*time.Second)
		c.keeps()
		c.mended()
	})
	t.Run("Gone", func(t *testing.T) {
		c := newCutOff(t)
		c.cut()
		time.Sleep(brokenFor)
		c.keeps()
		c.deleted()
	})
}

// cutOff is a pod that is cut off, and requests that enter there and at the other ones.
type cutOff struct {
	*scene
	app   *kit.Cart
	locks kit.Server
	// judge is the address of the locks, which the pod keeps to reach. Otherwise, they would be given back.
	judge   string
	clients *kit.Clients
	pod     *corev1.Pod
	others  []corev1.Pod
	before  map[string]kit.ShardOwner

	// since is when the pod was cut off.
	since    time.Time
	requests *direct
}

func newCutOff(t *testing.T) *cutOff {
	t.Helper()
	s := emptyScene(t)
	ctx := s.Context()
	c := &cutOff{scene: s, app: s.plain()}
	c.app.Annotations = map[string]string{
		v1alpha1.AnnotationStrict: "true", v1alpha1.AnnotationPatience: "2s",
		"autoscaling.knative.dev/min-scale": "3", "autoscaling.knative.dev/max-scale": "3",
	}
	c.locks = s.locked(c.app)
	judges, err := suite.Kube.CoreV1().Pods(s.ns).List(ctx, metav1.ListOptions{LabelSelector: c.locks.Selector()})
	s.must(err)
	if len(judges.Items) != 1 {
		t.Fatalf("there are %d pods with the locks", len(judges.Items))
	}
	// Without a name: the pod that is cut off cannot ask the cluster's DNS.
	c.judge = judges.Items[0].Status.PodIP
	c.app.Env["LOCKS"] = c.judge + ":8080"
	c.clients = s.allocate(c.app)
	c.before = s.still(c.app)
	c.pod = s.secondStable(c.app)
	pods, err := suite.Carts.Pods(ctx, c.app)
	s.must(err)
	c.others = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.Name == c.pod.Name })
	if len(c.others) != 2 {
		t.Fatalf("want two other pods: %v", c.others)
	}
	return c
}

// cut cuts the pod off, and goes on to send requests for its carts and those of others to each pod.
func (c *cutOff) cut() {
	c.Helper()
	ctx := c.Context()
	mine, theirs := c.carts()
	c.requests = newDirect(ctx)
	c.Cleanup(func() { c.requests.stop() })
	for _, p := range c.others {
		c.requests.send(&p, mine, 4) // so that connections from before the cut are soon used up
		c.requests.send(&p, theirs, 1)
	}
	c.requests.send(c.pod, mine, 1)
	c.requests.send(c.pod, theirs, 1)
	time.Sleep(5 * time.Second)
	c.Cleanup(func() { c.must(suite.Workloads.Mend(context.WithoutCancel(ctx))) })
	c.since = time.Now()
	c.must(suite.Workloads.CutOff(ctx, c.pod, c.judge))
}

// carts returns names of those of the pod, and of others.
func (c *cutOff) carts() (mine, theirs []string) {
	for i := range c.clients.Carts {
		name := fmt.Sprintf("cart-%d", i)
		if c.before[fmt.Sprint(c.clients.Shard(name))].Pod == c.pod.Name {
			mine = append(mine, name)
		} else {
			theirs = append(theirs, name)
		}
	}
	return mine, theirs
}

// mine reports whether a cart belonged to the pod before.
func (c *cutOff) mine(cart string) bool {
	return c.before[fmt.Sprint(c.clients.Shard(cart))].Pod == c.pod.Name
}

// keeps checks what came of the requests so far, while the pod is cut off. It keeps its shards, and refuses.
func (c *cutOff) keeps() {
	c.Helper()
	now, refused, unavailable := time.Now(), 0, 0
	for _, r := range c.requests.so() {
		cut := r.began.After(c.since)
		switch {
		case r.entry != c.pod.Name && !c.mine(r.cart):
			if r.status != http.StatusOK {
				c.Errorf("a request between two other pods failed: %s", r.told(c.since))
			}
		case !cut && r.ended.Before(c.since):
			if r.status != http.StatusOK {
				c.Errorf("a request failed before the cut: %s", r.told(c.since))
			}
		case r.entry == c.pod.Name && r.began.After(c.since.Add(refusesAfter)):
			if refused++; !r.unavailable() || !strings.Contains(r.said, "neither the controller nor most of the members") {
				c.Errorf("the pod that is cut off does not refuse: %s", r.told(c.since))
			}
		case r.entry != c.pod.Name && r.began.After(c.since.Add(brokenFor)) && r.ended.Before(now):
			if unavailable++; !r.unavailable() {
				c.Errorf("a cart of the pod that is cut off: want 503 with Retry-After: %s", r.told(c.since))
			}
		}
		if c.mine(r.cart) && r.by != "" && r.by != c.pod.Name {
			c.Errorf("a cart of the pod that is cut off was handled elsewhere: %s", r.told(c.since))
		}
	}
	c.Logf("%s after the cut: the pod refused %d requests; others got 503 for %d of its carts\n%s",
		took(c.since), refused, unavailable, c.requests.summary(c.since, c.pod.Name, c.mine))
	if refused < 20 {
		c.Errorf("only %d requests were refused, so this shows little", refused)
	}
}

// mended connects the pod again. It goes on with the shards that it had, in the same processes.
func (c *cutOff) mended() {
	c.Helper()
	ctx := c.Context()
	unavailable := 0
	for _, r := range c.requests.so() {
		if r.entry != c.pod.Name && r.began.After(c.since.Add(brokenFor)) && r.unavailable() {
			unavailable++
		}
	}
	if unavailable < 10 {
		c.Errorf("only %d requests for carts of the pod were answered with 503, so this shows little", unavailable)
	}
	began := time.Now()
	c.must(suite.Workloads.Mend(ctx))
	c.answered(began)
	c.requests.stop()
	after := c.owners(c.app, 0)
	if !maps.Equal(c.before, after) {
		c.Errorf("shards have moved:\n%v\n%v", c.before, after)
	}
	now, err := suite.Kube.CoreV1().Pods(c.ns).Get(ctx, c.pod.Name, metav1.GetOptions{})
	c.must(err)
	for _, one := range slices.Concat(now.Status.InitContainerStatuses, now.Status.ContainerStatuses) {
		if one.RestartCount > 0 {
			c.Errorf("container %s of pod %s was restarted", one.Name, now.Name)
		}
	}
	c.must(suite.Carts.WaitOneCluster(ctx, c.app))
	c.neverTwice(c.locks, c.app)
}

// answered waits until no request that began after a time was refused or lost for five seconds.
func (c *cutOff) answered(since time.Time) {
	c.Helper()
	const calm = 5 * time.Second
	c.must(kit.Wait(c.Context(), 3*time.Minute, "all carts to be answered", func(ctx context.Context) error {
		from, gone, fine := time.Now().Add(-calm), c.gone(ctx), map[bool]int{}
		if from.Before(since) {
			return kit.NotYet("it is too early")
		}
		for _, r := range c.requests.so() {
			switch {
			case r.began.Before(from), r.entry == c.pod.Name && gone:
			case r.status != http.StatusOK:
				return kit.NotYet("%s", r.told(since))
			default:
				fine[c.mine(r.cart)]++
			}
		}
		if fine[true] < 10 || fine[false] < 10 {
			return kit.NotYet("so few answers: %v", fine)
		}
		c.Logf("all carts were answered %s later", (time.Since(since) - calm).Round(time.Second))
		return nil
	}))
}

// gone reports whether the API server says that the pod is gone.
func (c *cutOff) gone(ctx context.Context) bool {
	_, err := suite.Kube.CoreV1().Pods(c.ns).Get(ctx, c.pod.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}

// deleted deletes the pod while it is cut off, so that nobody hears it leave. The others take its shards after the API
// server says that it is gone, and after the lease.
func (c *cutOff) deleted() {
	c.Helper()
	ctx := c.Context()
	deleting := time.Now()
	c.must(suite.Kube.CoreV1().Pods(c.ns).Delete(ctx, c.pod.Name, metav1.DeleteOptions{}))
	var there time.Time // when it was last there
	c.must(kit.Wait(ctx, 2*time.Minute, "the end of the pod", func(ctx context.Context) error {
		if now := time.Now(); !c.gone(ctx) {
			there = now
			return kit.NotYet("it is there")
		}
		return nil
	}))
	c.Logf("the pod was gone %s after its deletion", took(deleting))
	c.answered(there)
	c.requests.stop()
	first := time.Time{}
	for _, r := range c.requests.so() {
		// Nothing can move before the pod is gone.
		if r.entry != c.pod.Name && !c.mine(r.cart) && r.status != http.StatusOK && r.ended.Before(there) {
			c.Errorf("a request between two other pods failed: %s", r.told(c.since))
		}
		if !c.mine(r.cart) || r.by == "" || r.by == c.pod.Name {
			continue
		}
		if first.IsZero() || r.ended.Before(first) {
			first = r.ended
		}
		// A pod whose containers have ended is gone, too, shortly before its object is.
		if r.ended.Before(there.Add(lease / 2)) {
			c.Errorf("a cart of the pod was handled elsewhere before the lease was over: %s", r.told(there))
		}
	}
	c.Logf("the first cart of the pod was handled elsewhere %s after it was last there", first.Sub(there).Round(time.Second))
	c.must(suite.Workloads.Mend(ctx))
	c.must(suite.Carts.WaitOneCluster(ctx, c.app))
	c.must(c.clients.Send(ctx, c.clients.Carts))
	c.owners(c.app, 0)
	c.neverTwice(c.locks, c.app, c.pod.Name)
}
