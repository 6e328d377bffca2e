// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// Requests of TestSidecarCost to each kind of pod: in turn, this many at a time.
const (
	costRounds   = 20
	costRequests = 250
)

// way is where requests go.
type way struct {
	name string
	pod  *corev1.Pod
	// keys are those whose shards make the way: here, or at the other pod.
	keys  []string
	took  []time.Duration
	spent map[string]time.Duration
	// status is what the application answers: it refuses what comes without the sidecar's headers.
	status int
}

// TestSidecarCost compares requests through queue-proxy and the sidecar with those through queue-proxy alone, in one run:
// time, processor and memory. It checks nothing: "make bench-sidecar" prints the ratios.
func TestSidecarCost(t *testing.T) {
	if os.Getenv("E2E_COMPARE") == "" || !suite.Own() {
		t.Skip("make bench-sidecar: it needs a quiet machine, and the cluster made by test/cluster")
	}
	withInjector(t)
	s := emptyScene(t)
	ctx := t.Context()
	s.releasedServing()
	bare := emptyScene(t).notOptedIn().Bare()
	s.must(suite.Carts.DeployAlone(ctx, bare))
	without, err := suite.Carts.Pods(ctx, bare)
	s.must(err)
	ways := []*way{{
		name: "without", pod: &without[0], keys: []string{"cart-1", "cart-2", "cart-3"}, status: http.StatusInternalServerError,
	}}
	envoys, pods := emptyScene(t).envoy()
	ways, all := append(ways, envoys...), append(without, pods...)
	for _, form := range []string{"container", "queue-proxy"} {
		app := emptyScene(t).plain()
		if form == "queue-proxy" {
			app.Annotations = map[string]string{"stateful.knative-cdevents.dev/proxy": form}
		}
		more, of := s.costly(app, form)
		ways, all, pods = append(ways, more...), append(all, of...), append(pods, of...)
	}
	for _, w := range ways {
		w.spent = map[string]time.Duration{}
		w.send(s, 200) // connections, and code that runs for the first time
	}
	for _, w := range ways {
		w.took = nil
	}
	// The kubelet looks at the processor every ten seconds or so, so each way has whole rounds in one piece for that.
	for range costRounds {
		for _, w := range ways {
			w.send(s, costRequests/10)
		}
	}
	for _, w := range ways {
		before := s.processor(all)
		w.send(s, costRounds*costRequests)
		after := s.processor(all)
		for container := range after {
			w.spent[container] = after[container] - before[container]
		}
	}
	base := ways[0]
	for _, w := range ways {
		t.Logf("%-22s p50 %.2f, p99 %.2f, processor %.2f times that without a sidecar (%v)", w.name, ratio(w.quantile(.5), base.quantile(.5)),
			ratio(w.quantile(.99), base.quantile(.99)), ratio(w.processor(), base.processor()), w.spent)
	}
	t.Logf("memory (working set): %v", s.memory(pods))
}

// costly deploys the application in one form of the sidecar, and returns the ways of requests that are handled where they
// enter, and of those that are forwarded.
func (s *scene) costly(app *kit.Cart, form string) ([]*way, []corev1.Pod) {
	s.Helper()
	ctx := s.Context()
	s.must(suite.Carts.Deploy(ctx, app))
	clients, err := suite.Carts.Clients(ctx, app)
	s.must(err)
	s.must(clients.SendUntil(ctx, app.Stable()))
	s.must(clients.Send(ctx, clients.Carts)) // so that all shards are held
	pods, err := suite.Carts.Pods(ctx, app)
	s.must(err)
	owners, err := suite.Carts.ShardOwners(ctx, app)
	s.must(err)
	local := &way{name: form + " local", pod: &pods[0], status: http.StatusOK}
	forwarded := &way{name: form + " forwarded", pod: &pods[0], status: http.StatusOK}
	for i := range 400 {
		key := fmt.Sprintf("cart-%d", i)
		if owners[fmt.Sprint(clients.Shard(key))].Pod == pods[0].Name {
			local.keys = append(local.keys, key)
		} else {
			forwarded.keys = append(forwarded.keys, key)
		}
	}
	return []*way{local, forwarded}, pods
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(max(b, 1)) }

// processor is the time of all containers.
func (w *way) processor() (sum time.Duration) {
	for _, d := range w.spent {
		sum += d
	}
	return sum
}

func (w *way) quantile(q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(w.took))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// send sends requests to queue-proxy, one after the other.
func (w *way) send(s *scene, n int) {
	s.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	for i := range n {
		began := time.Now()
		body, status, err := w.get(s.Context(), client, w.keys[i%len(w.keys)])
		s.must(err)
		w.took = append(w.took, time.Since(began))
		if status != w.status {
			s.Fatalf("%s: %d %s", w.name, status, body)
		}
	}
}

// get sends one request.
func (w *way) get(ctx context.Context, client *http.Client, key string) (body []byte, status int, err error) {
	url := fmt.Sprintf("http://%s:8012/cart/%s?for=0s", w.pod.Status.PodIP, key)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = resp.Body.Close() }() // a read error is already returned
	body, err = io.ReadAll(resp.Body)
	return body, resp.StatusCode, err
}

// processor sums up the time of containers, by their name.
func (s *scene) processor(of []corev1.Pod) map[string]time.Duration {
	s.Helper()
	all, err := suite.Workloads.Usage(s.Context(), of, time.Now())
	s.must(err)
	out := map[string]time.Duration{}
	for _, c := range all {
		out[c.Container] += c.Spent
	}
	return out
}

// memory returns the largest working set of each container, in MiB.
func (s *scene) memory(of []corev1.Pod) map[string]int64 {
	s.Helper()
	all, err := suite.Workloads.Usage(s.Context(), of, time.Time{})
	s.must(err)
	out := map[string]int64{}
	for _, c := range all {
		out[c.Container] = max(out[c.Container], c.Memory>>20)
	}
	return out
}
