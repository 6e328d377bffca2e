// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// TestSidecarDisturbed takes away what the sidecars depend on.
func TestSidecarDisturbed(t *testing.T) {
	onlyInFull(t)
	withInjector(t)
	t.Run("UnderLoad", func(t *testing.T) {
		s := emptyScene(t)
		s.underLoad(s.patient())
	})
	t.Run("ControllerAway", func(t *testing.T) {
		s := emptyScene(t)
		s.controllerAway(s.patient())
	})
	t.Run("InjectorAway", func(t *testing.T) { emptyScene(t).injectorAway() })
	if suite.Own() {
		t.Run("RestartTogether", func(t *testing.T) { emptyScene(t).restartsTogether() })
	}
}

// patient is the same for faults: its requests wait for longer than a hand-over takes on a busy machine.
func (s *scene) patient() *kit.Cart {
	s.Helper()
	app := s.plain()
	app.Annotations = map[string]string{"stateful.knative-cdevents.dev/patience": "20s"}
	return app
}

// drains ends a pod while it handles long requests. Each of them is answered.
func (s *scene) drains() {
	s.Helper()
	app := s.plain()
	locks, clients := s.withCanary(app)
	s.neverTwice(locks, app, s.drainsPod(app, clients))
}

// drainsPod does this without looking at the locks, and returns the pod.
func (s *scene) drainsPod(app *kit.Cart, clients *kit.Clients) string {
	s.Helper()
	ctx := s.Context()
	pod := s.secondStable(app)
	const long = 8 * time.Second
	var group sync.WaitGroup
	answers := make([]kit.CartAnswer, 12)
	errs := make([]error, len(answers))
	for i := range answers {
		group.Go(func() { answers[i], errs[i] = clients.Hold(ctx, i, long) })
	}
	time.Sleep(time.Second)
	s.must(suite.Workloads.Evict(ctx, s.ns, pod.Name))
	group.Wait()
	there := 0
	for i, a := range answers {
		if errs[i] != nil || a.Outcome != "ok" {
			s.Errorf("%+v, %v", a, errs[i])
		}
		if a.Handled.Pod == pod.Name {
			there++
		}
	}
	if s.Logf("the pod that ended handled %d of %d long requests", there, len(answers)); there == 0 {
		s.Error("none of the requests was in the pod that ended, so this shows nothing")
	}
	s.must(suite.Carts.WaitOneCluster(ctx, app))
	// A member takes a shard that nobody holds with the first request for it.
	s.must(clients.Send(ctx, clients.Carts))
	s.owners(app, 0)
	return pod.Name
}

func (s *scene) clients(app *kit.Cart) *kit.Clients {
	s.Helper()
	clients, err := suite.Carts.Clients(s.Context(), app)
	s.must(err)
	s.must(clients.SendUntil(s.Context(), app.Stable()))
	return clients
}

// kills ends the sidecar of a pod, and then its container, by SIGKILL. No cart is ever handled in two pods at once.
func (s *scene) kills() {
	s.Helper()
	app := s.patient()
	locks, clients := s.withCanary(app)
	s.must(suite.Carts.Split(s.Context(), app, 20))
	s.owners(app, 20)
	for _, container := range []string{v1alpha1.SidecarContainer, "cart"} {
		stop := background(s.Context(), clients)
		pod := s.secondStable(app)
		began := time.Now()
		s.must(suite.Workloads.SignalContainer(s.Context(), "KILL", pod, container))
		s.restarted(pod, container)
		s.owners(app, 20)
		took := time.Since(began).Round(time.Second)
		stop()
		s.Logf("%s was killed; all shards were placed %s later; what the clients got in all\n%s", container, took, clients.Truth())
		s.neverTwiceCarts(locks)
	}
	// All is as it was.
	was := clients.Truth().Handled[""].All() + lost(clients)
	s.must(clients.Send(s.Context(), 300))
	if now := clients.Truth().Handled[""].All() + lost(clients); now != was {
		s.Errorf("%d of 300 requests got no answer afterwards", now-was)
	}
}

// restartsTogether does the same with a pod whose containers restart as soon as the sidecar ends.
func (s *scene) restartsTogether() {
	s.Helper()
	ctx := s.Context()
	s.must(suite.Injector.Set(ctx, "RESTART_TOGETHER", "true"))
	defer func() { s.must(suite.Injector.Set(context.WithoutCancel(ctx), "RESTART_TOGETHER", "false")) }()
	app := s.patient()
	locks, clients := s.withCanary(app)
	stop := background(ctx, clients)
	pod := s.secondStable(app)
	began := time.Now()
	s.must(suite.Workloads.SignalContainer(ctx, "KILL", pod, v1alpha1.SidecarContainer))
	s.restarted(pod, v1alpha1.SidecarContainer)
	s.restarted(pod, "cart")
	s.owners(app, 0)
	took := time.Since(began).Round(time.Second)
	stop()
	s.Logf("all shards were placed %s after the sidecar was killed; what the clients got\n%s", took, clients.Truth())
	s.neverTwice(locks, app, pod.Name)
}

// restarted waits until a container of a pod was started again, and the pod is ready.
func (s *scene) restarted(p *corev1.Pod, container string) {
	s.Helper()
	s.must(kit.Wait(s.Context(), 2*time.Minute, container+" of "+p.Name, func(ctx context.Context) error {
		now, err := suite.Kube.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		restarts := func(p *corev1.Pod) (n int32, ready bool) {
			for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
				if c.Name == container {
					n += c.RestartCount
				}
			}
			return n, slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			})
		}
		before, _ := restarts(p)
		if n, ready := restarts(now); n <= before || !ready {
			return kit.NotYet("%d restarts, ready: %v", n, ready)
		}
		return nil
	}))
}

// neverTwiceCarts checks that no cart was handled in two pods at once. The lock of a shard says less after a sidecar was
// killed: its container is not told that the shard has left.
func (s *scene) neverTwiceCarts(server kit.Server) {
	s.Helper()
	saw, err := suite.Locks(s.Context(), server)
	s.must(err)
	s.Logf("%d locks were taken, %d held twice; the first ones: %+v", saw.Taken, saw.HeldTwice, saw.Twice)
	for _, twice := range saw.Twice {
		if strings.HasPrefix(twice.Lock, "cart-") {
			s.Errorf("%s was handled in pod %s while it was handled in %v", twice.Lock, twice.Taker, twice.Holders)
		}
	}
	if saw.Taken == 0 || saw.HeldTwice > len(saw.Twice) {
		s.Errorf("%d locks were taken, and %d of %d that were held twice are listed", saw.Taken, len(saw.Twice), saw.HeldTwice)
	}
}

func lost(c *kit.Clients) (n int) {
	for _, one := range c.Truth().Lost {
		n += one
	}
	return n
}

// injectorAway shows what goes on without the injector, and what waits for it.
func (s *scene) injectorAway() {
	s.Helper()
	ctx := s.Context()
	app := s.plain()
	locks, clients := s.withCanary(app)
	s.must(suite.Carts.Split(ctx, app, 0)) // with a tag, the canary stays
	s.must(suite.Injector.Scale(ctx, 0))
	back := sync.OnceFunc(func() { s.must(suite.Injector.Scale(context.WithoutCancel(ctx), 2)) })
	defer back()
	s.must(clients.Send(ctx, 200))
	// An ordinary Service in the same namespace does not notice.
	s.must(suite.Services.Create(ctx, kit.App(s.ns, "ordinary", suite.app, "")))
	_, err := suite.Services.Wait(ctx, s.ns, "ordinary", "")
	s.must(err)
	pod := s.secondStable(app)
	s.must(suite.Workloads.Evict(ctx, s.ns, pod.Name))
	s.must(kit.Wait(ctx, time.Minute, "a refused pod", func(ctx context.Context) error {
		events, err := suite.Kube.CoreV1().Events(s.ns).List(ctx, metav1.ListOptions{FieldSelector: "reason=FailedCreate"})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if strings.Contains(e.Message, "pods.sidecar.knative-cdevents.dev") {
				s.Logf("what a user sees: %s", e.Message)
				return nil
			}
		}
		return kit.NotYet("%d events of other reasons", len(events.Items))
	}))
	s.must(clients.Send(ctx, 200))
	back()
	// The ReplicaSet controller tries less and less often; what the runbook says makes it try now.
	(&watched{scene: s, programs: s.TempDir()}).does("SidecarInjectorUnreachable", "cart", "kubectl annotate")
	s.must(kit.Wait(ctx, 2*time.Minute, "three pods", func(ctx context.Context) error {
		pods, err := suite.Carts.Pods(ctx, app)
		if err != nil {
			return err
		}
		if len(pods) != 3 {
			return kit.NotYet("there are %d", len(pods))
		}
		return nil
	}))
	s.must(suite.Carts.WaitOneCluster(ctx, app))
	s.must(clients.Send(ctx, clients.Carts))
	s.owners(app, 0)
	if truth := clients.Truth(); len(truth.Lost) > 0 {
		s.Errorf("requests were not answered: %v", truth.Lost)
	}
	s.neverTwice(locks, app, pod.Name)
}
