// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// TestSidecarTraffic sends requests through the ingress that are not short, and many for one key.
func TestSidecarTraffic(t *testing.T) {
	onlyInFull(t)
	withInjector(t)
	for _, form := range []string{"Container", "InQueueProxy"} {
		t.Run("Streams"+form, func(t *testing.T) { emptyScene(t).streams(form == "InQueueProxy") })
		t.Run("GRPC"+form, func(t *testing.T) { emptyScene(t).calls(form == "InQueueProxy") })
	}
	t.Run("HotKey", func(t *testing.T) { emptyScene(t).hotKey(50) })
	t.Run("HotKeyWithoutRoom", func(t *testing.T) { emptyScene(t).hotKey(5) })
}

// streaming is the application of test/apps/streams in two pods. The key is in a header.
func (s *scene) streaming(inQueueProxy, grpc bool) *kit.Cart {
	s.Helper()
	s.must(suite.Injector.OptIn(s.Context(), s.ns))
	image, err := suite.Image(s.Context(), "./test/apps/streams")
	s.must(err)
	app := suite.Carts.Plain(s.ns, image)
	app.Annotations = map[string]string{v1alpha1.AnnotationKey: "header:X-Key"}
	if inQueueProxy {
		s.releasedServing()
		app.Annotations[v1alpha1.AnnotationProxy] = v1alpha1.ProxyQueueProxy
	}
	if grpc {
		app.Env["GRPC"] = "true"
		app.Change = func(svc *servingv1.Service) { kit.SetProtocol(svc, "h2c") }
	}
	s.must(suite.Carts.Deploy(s.Context(), app))
	return app
}

// at returns where to connect to for a Service, and its name there.
func (s *scene) at(app *kit.Cart) (address, host string) {
	s.Helper()
	in, err := suite.Services.Ingress(s.Context())
	s.must(err)
	url, err := suite.Carts.URL(s.Context(), app)
	s.must(err)
	return in.Address(url), url.Host
}

// spread sends a request of each shard, so that all are held, and returns two keys of each pod.
func (s *scene) spread(app *kit.Cart, state func(ctx context.Context, key, id string) (kit.Seen, error)) map[string][]string {
	s.Helper()
	ctx := s.Context()
	clients, err := suite.Carts.Clients(ctx, app)
	s.must(err)
	keys := map[string]string{}
	for i := 0; len(keys) < 100; i++ {
		key := fmt.Sprintf("key-%d", i)
		keys[fmt.Sprint(clients.Shard(key))] = key
	}
	s.must(kit.Wait(ctx, 2*time.Minute, "the ingress to know the Service", func(ctx context.Context) error {
		if _, err := state(ctx, keys["0"], "none"); err != nil {
			return kit.NotYet("%v", err)
		}
		return nil
	}))
	for shard, key := range keys {
		if seen, err := state(ctx, key, "none"); err != nil || seen.Shard != shard || seen.Key != key {
			s.Fatalf("key %s of shard %s: %+v, %v", key, shard, seen, err)
		}
	}
	out := map[string][]string{}
	for shard, owner := range s.still(app) {
		if len(out[owner.Pod]) < 2 {
			out[owner.Pod] = append(out[owner.Pod], keys[shard])
		}
	}
	if len(out) != 2 {
		s.Fatalf("want keys of two pods: %v", out)
	}
	return out
}

// streams sends WebSockets, server-sent events and uploads, expects 100 Continue, and gives requests up.
func (s *scene) streams(inQueueProxy bool) {
	s.Helper()
	ctx := s.Context()
	app := s.streaming(inQueueProxy, false)
	c := kit.NewStreams(s.at(app))
	for pod, keys := range s.spread(app, c.State) {
		for _, key := range keys {
			began := time.Now()
			s.one(key, "a WebSocket", c.WebSocket(ctx, key, "echo-"+key, 20))
			s.one(key, "server-sent events", c.Events(ctx, key, "events-"+key, 5))
			uploading := time.Now()
			s.one(key, "an upload", c.Upload(ctx, key, "upload-"+key, 64<<20))
			uploaded := time.Since(uploading).Round(10 * time.Millisecond)
			s.one(key, "Expect: 100-continue", c.Expect(ctx, key, "expect-"+key))
			s.one(key, "a request that is given up", c.Cancel(ctx, key, "cancel-"+key))
			s.refused(key, c)
			for _, what := range []string{"echo-", "events-", "upload-", "expect-", "cancel-"} {
				// The pod that is asked is the one that handles the key.
				if seen, err := c.State(ctx, key, what+key); err != nil || seen.Pod != pod || !seen.Begun {
					s.Errorf("%s%s was not handled by pod %s, which has its key: %+v, %v", what, key, pod, seen, err)
				}
			}
			s.Logf("all streams of %s at pod %s took %s, and 64 MiB of it %s", key, pod, took(began), uploaded)
		}
	}
	s.someForwarded(app)
}

// calls makes calls of gRPC over one connection.
func (s *scene) calls(inQueueProxy bool) {
	s.Helper()
	ctx := s.Context()
	app := s.streaming(inQueueProxy, true)
	c, err := kit.NewCalls(s.at(app))
	s.must(err)
	defer func() { s.must(c.Close()) }()
	for pod, keys := range s.spread(app, c.State) {
		for i, key := range keys {
			handled, err := c.Both(ctx, key, "both-"+key, 20)
			if s.one(key, "a call in both directions", err); handled != pod {
				s.Errorf("%s was handled by pod %q, but pod %s has its key", key, handled, pod)
			}
			s.one(key, "a call that fails", c.Fails(ctx, key, "fails-"+key, false))
			s.one(key, "a call that is given up", c.Cancel(ctx, key, "cancel-"+key))
			s.one(key, "a call whose time runs out", c.Deadline(ctx, key, "deadline-"+key))
			if i > 0 {
				continue
			}
			// A proxy that is built with Go 1.26 withholds such a status, be it the ingress, the activator or queue-proxy.
			short, cancel := context.WithTimeout(ctx, 10*time.Second)
			s.Logf("a call that fails before its client has ended its part: %v", c.Fails(short, key, "early-"+key, true))
			cancel()
		}
	}
	s.someForwarded(app)
}

// one fails the test with what went wrong with a request.
func (s *scene) one(key, what string, err error) {
	s.Helper()
	if err != nil {
		s.Errorf("%s for %s: %v", what, key, err)
	}
}

// refused has the application refuse an upload before its body is sent. A proxy asks for it all the same if the answer
// takes a second, as on a busy machine.
func (s *scene) refused(key string, c *kit.Streams) {
	s.Helper()
	for range 5 {
		asked, err := c.Refused(s.Context(), key)
		if s.one(key, "an upload that is refused", err); err != nil || !asked {
			return
		}
	}
	s.Errorf("five times, the body of an upload for %s was asked for although the application refuses it", key)
}

// someForwarded checks that requests were handled where they entered, and that others were forwarded.
func (s *scene) someForwarded(app *kit.Cart) {
	s.Helper()
	forwarded, all := s.sum(app, "stateful_requests_forwarded_total"), s.sum(app, "stateful_requests_started_total")
	s.Logf("%d of %d requests were forwarded", forwarded, all)
	if forwarded == 0 || forwarded == all {
		s.Errorf("%d of %d requests were forwarded, so this shows less than it should", forwarded, all)
	}
}
