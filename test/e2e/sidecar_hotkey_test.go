// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

const (
	// hotRequests are open for the hot key all the time. Its owner handles them in turn, and each takes this long.
	hotRequests = 12
	hotTakes    = 200 * time.Millisecond
	// hotPods is how many pods that many requests make with a target of 5, of which Serving uses 70 %.
	hotPods = 4
)

// answers are those to requests that were timed.
type answers struct {
	mu       sync.Mutex
	took     []time.Duration
	pods     map[string]int
	problems map[string]int
}

func newAnswers() *answers { return &answers{pods: map[string]int{}, problems: map[string]int{}} }

// ask sends a request for the nth cart, and notes its answer.
func (a *answers) ask(ctx context.Context, clients *kit.Clients, n int, takes time.Duration) {
	began := time.Now()
	got, err := clients.Hold(ctx, n, takes)
	elapsed := time.Since(began)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err != nil:
		a.problems[err.Error()]++
	case got.Outcome != "ok":
		a.problems[got.Outcome]++
	default:
		a.took = append(a.took, elapsed)
		a.pods[got.Handled.Pod]++
	}
}

// quantile may be called after the last answer.
func (a *answers) quantile(q float64) time.Duration {
	if len(a.took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(a.took))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)].Round(time.Millisecond)
}

func (a *answers) String() string {
	return fmt.Sprintf("%d answers, p50 %s, p95 %s, by %v; without an answer: %v", len(a.took), a.quantile(.5), a.quantile(.95), a.pods, a.problems)
}

// sendHot sends requests for the hot key, which is cart 0, until stop is called.
func sendHot(ctx context.Context, clients *kit.Clients) (stop func() *answers) {
	all, ending := newAnswers(), make(chan struct{})
	var senders sync.WaitGroup
	for range hotRequests {
		senders.Go(func() {
			for {
				select {
				case <-ending:
					return
				default:
					all.ask(ctx, clients, 0, hotTakes)
				}
			}
		})
	}
	return sync.OnceValue(func() *answers {
		close(ending)
		senders.Wait()
		return all
	})
}

// hotKey sends most requests for one key. Serving adds pods, because it counts requests where they enter, but the key's
// owner goes on to handle it alone. If a container handles more requests at a time than there are for the hot key, the
// other keys of its owner do not wait for them.
func (s *scene) hotKey(concurrency int64) {
	s.Helper()
	ctx := s.Context()
	app := s.patient()
	app.Annotations["autoscaling.knative.dev/max-scale"] = fmt.Sprint(hotPods)
	app.Annotations["autoscaling.knative.dev/target"] = "5"
	app.Change = func(svc *servingv1.Service) { svc.Spec.Template.Spec.ContainerConcurrency = &concurrency }
	locks := s.locked(app)
	clients := s.allocate(app)
	stop := sendHot(ctx, clients)
	defer stop()
	began := time.Now()
	s.must(kit.Wait(ctx, 3*time.Minute, "more pods", func(ctx context.Context) error {
		pods, err := suite.Carts.Pods(ctx, app)
		if err != nil {
			return err
		}
		if len(pods) < hotPods {
			return kit.NotYet("there are %d", len(pods))
		}
		return nil
	}))
	s.must(suite.Carts.WaitOneCluster(ctx, app))
	s.must(kit.Wait(ctx, 3*time.Minute, "shards at all pods", func(ctx context.Context) error {
		owners, err := suite.Carts.ShardOwners(ctx, app)
		if err != nil {
			return kit.NotYet("%v", err)
		}
		shards := map[string]int{}
		for _, o := range owners {
			shards[o.Pod]++
		}
		if len(shards) < hotPods || slices.Min(slices.Collect(maps.Values(shards))) < 100/hotPods {
			return kit.NotYet("the pods have %v", shards)
		}
		return nil
	}))
	s.Logf("%d requests for one key made %d pods in %s", hotRequests, hotPods, took(began))
	owners := s.still(app)
	owner := owners[fmt.Sprint(clients.Shard("cart-0"))].Pod
	if moving := stop(); len(moving.problems) > 0 {
		s.Errorf("requests for the hot key failed while pods were added: %v", moving)
	}

	// From here, nothing moves.
	stop = sendHot(ctx, clients)
	defer stop()
	s.handledBy(app, owner, int(min(hotRequests, concurrency)))
	beside, elsewhere := newAnswers(), newAnswers()
	for n := 1; len(beside.took) < 60 || len(elsewhere.took) < 60; n++ {
		one := elsewhere
		if owners[fmt.Sprint(clients.Shard(fmt.Sprintf("cart-%d", n)))].Pod == owner {
			one = beside
		}
		if len(one.took) < 60 {
			one.ask(ctx, clients, n, 5*time.Millisecond)
		}
		if len(one.problems) > 0 {
			break
		}
	}
	hot := stop()
	s.Logf("containerConcurrency %d:\nthe hot key           %v\nother keys of its pod %v\nkeys of other pods    %v", concurrency, hot, beside, elsewhere)
	for _, one := range []*answers{hot, beside, elsewhere} {
		if len(one.problems) > 0 {
			s.Errorf("requests were not answered: %v", one.problems)
		}
	}
	if len(hot.pods) != 1 || hot.pods[owner] == 0 {
		s.Errorf("the hot key was handled by %v, but pod %s has its shard", hot.pods, owner)
	}
	if limit := hot.quantile(.5) / 2; concurrency > hotRequests && (beside.quantile(.95) > limit || elsewhere.quantile(.95) > limit) {
		s.Errorf("other keys wait for the hot one: want a p95 below %s", limit)
	}
	s.neverTwice(locks, app)
}

// handledBy checks what the pods say of requests: the owner handles those for the hot key, as far as its container
// takes them, and all others send some of them there.
func (s *scene) handledBy(app *kit.Cart, owner string, want int) {
	s.Helper()
	s.must(kit.Wait(s.Context(), time.Minute, "the pods' figures", func(ctx context.Context) error {
		pods, err := suite.Carts.Pods(ctx, app)
		if err != nil {
			return err
		}
		handled, forwarded := map[string]int{}, map[string]int{}
		for _, p := range pods {
			if handled[p.Name], err = gauge(ctx, &p, "stateful_handled_concurrency"); err != nil {
				return err
			}
			if forwarded[p.Name], err = gauge(ctx, &p, "stateful_requests_forwarded_total"); err != nil {
				return err
			}
		}
		for pod, n := range handled {
			switch {
			case pod == owner && n < want*2/3:
				return kit.NotYet("the owner %s handles %d of %d requests: %v", pod, n, want, handled)
			case pod != owner && n > 2:
				return kit.NotYet("%s handles %d requests: %v", pod, n, handled)
			case pod != owner && forwarded[pod] == 0:
				return kit.NotYet("no request has entered at %s: %v", pod, forwarded)
			}
		}
		s.Logf("pod %s has the hot key; the pods handle now %v, and have forwarded %v", owner, handled, forwarded)
		return nil
	}))
}

// gauge returns the sum of a family of a pod's metrics.
func gauge(ctx context.Context, p *corev1.Pod, family string) (sum int, err error) {
	families, err := suite.Workloads.Scrape(ctx, p)
	if err != nil {
		return 0, err
	}
	for _, m := range families[family].GetMetric() {
		sum += int(m.GetGauge().GetValue() + m.GetCounter().GetValue())
	}
	return sum, nil
}
