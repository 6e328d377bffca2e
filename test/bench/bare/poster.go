// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/google/uuid"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
)

const (
	// workers is the number of concurrent senders, the same as the controller's for a source.
	workers = 16
	// backlog is larger than a burst's share for one worker: a full queue would delay the others.
	backlog = 10_000
)

// poster sends changed splits. Each Route has one worker, so its events stay in order.
type poster struct {
	sink   string
	client *http.Client
	queues [workers]chan *servingv1.Route
}

func newPoster(sink string) *poster {
	p := &poster{sink: sink, client: &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: workers},
	}}
	for i := range p.queues {
		p.queues[i] = make(chan *servingv1.Route, backlog)
	}
	return p
}

// changed queues a Route whose split is new and in effect.
func (p *poster) changed(before, after *servingv1.Route) {
	if !after.IsReady() || reflect.DeepEqual(before.Status.Traffic, after.Status.Traffic) {
		return
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(after.Namespace + "/" + after.Name)) // a hash never fails
	p.queues[h.Sum32()%workers] <- after
}

// run sends until the context ends.
func (p *poster) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, queue := range p.queues {
		all.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case r := <-queue:
					if err := p.post(ctx, r); err != nil && ctx.Err() == nil {
						log.Printf("a change of Route %s/%s is lost: %v", r.Namespace, r.Name, err)
					}
				}
			}
		})
	}
	all.Wait()
}

// post sends one event, once.
func (p *poster) post(ctx context.Context, r *servingv1.Route) error {
	ev, err := shifted(r)
	if err != nil {
		return err
	}
	req, err := cehttp.NewHTTPRequestFromEvent(ctx, p.sink, ev)
	if err != nil {
		return fmt.Errorf("creating the request: %w", err)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return fmt.Errorf("posting: %w", err)
	}
	// The connection is reused only after the response has been read.
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return fmt.Errorf("reading the response: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the sink answered %s", resp.Status)
	}
	return nil
}

// split is the body of an event.
type split struct {
	Namespace string                    `json:"namespace"`
	Name      string                    `json:"name"`
	Traffic   []servingv1.TrafficTarget `json:"traffic"`
}

func shifted(r *servingv1.Route) (event.Event, error) {
	ev := event.New()
	ev.SetID(uuid.NewString())
	ev.SetSource("/bench/bare")
	ev.SetType("bench.bare.shifted")
	if err := ev.SetData(event.ApplicationJSON, split{r.Namespace, r.Name, r.Status.Traffic}); err != nil {
		return ev, fmt.Errorf("encoding the split of Route %s/%s: %w", r.Namespace, r.Name, err)
	}
	return ev, nil
}
