// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/cluster"
)

// probe queries all pods of a cluster in parallel, for the members that they know and the
// shards that they hold: of the entity types that they declare, and of those that are planned. An older
// Revision may have a type that only a newer one declares.
func (p *Poller) probe(ctx context.Context, pods []*cluster.Pod) map[string]cluster.Answer {
	var planned []string
	for _, pod := range pods {
		if pod.Declared.Placement != "" {
			planned = union(planned, pod.Declared.EntityTypes)
		}
	}
	var mu sync.Mutex
	var requests sync.WaitGroup
	out := map[string]cluster.Answer{}
	for _, pod := range pods {
		at, err := management(pod)
		if err != nil {
			continue
		}
		requests.Go(func() {
			a := p.probeOne(ctx, at, union(pod.Declared.EntityTypes, planned))
			mu.Lock()
			defer mu.Unlock()
			out[pod.IP] = a
		})
	}
	requests.Wait()
	return out
}

var errNoManagement = errors.New("the pod has no management API")

// management returns the address of the pod's management API. It is always the pod's own
// IP address.
func management(pod *cluster.Pod) (netip.AddrPort, error) {
	if pod.Declared.ManagementPort == 0 || !pod.Live() {
		return netip.AddrPort{}, errNoManagement
	}
	ip, err := netip.ParseAddr(pod.IP)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("parsing the IP address of pod %s: %w", pod.Name, err)
	}
	return netip.AddrPortFrom(ip, uint16(pod.Declared.ManagementPort)), nil //nolint:gosec // it was parsed as a port
}

// union returns the first names, then those of the others that are not among them.
func union(names, others []string) []string {
	out := slices.Clone(names)
	for _, name := range others {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func (p *Poller) probeOne(ctx context.Context, at netip.AddrPort, entityTypes []string) cluster.Answer {
	var a cluster.Answer
	if a.Members, a.Err = p.API.Members(ctx, at); a.Err != nil || len(entityTypes) == 0 {
		return a
	}
	a.Shards = map[string][]string{}
	for _, entityType := range entityTypes {
		held, err := p.API.Shards(ctx, at, entityType)
		if err != nil {
			a.Err = err // keep what the pod did answer
			continue
		}
		a.Shards[entityType] = held
	}
	return a
}

// How long to wait before an ended stream is opened again.
const (
	reopen = 30 * time.Second
	// absent applies if the runtime does not serve the route.
	absent = 10 * time.Minute
)

// stream is the one event stream of a cluster. An event triggers an early poll; polling
// also works without events.
type stream struct {
	mu   sync.Mutex
	open bool
	// notBefore is the time before which no stream is opened.
	notBefore time.Time
}

// watchEvents opens a stream to the first Ready pod, unless one is open already.
func (p *Poller) watchEvents(key types.NamespacedName, c *polled, pods []*cluster.Pod) {
	s := &c.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open || p.Now().Before(s.notBefore) {
		return
	}
	for _, pod := range pods {
		at, err := management(pod)
		if err != nil || !pod.Ready {
			continue
		}
		s.open = true
		go func() {
			err := p.API.Events(c.ended, at, func(string) { p.Changed(key) })
			s.mu.Lock()
			defer s.mu.Unlock()
			s.open, s.notBefore = false, p.Now().Add(reopen)
			if errors.Is(err, cluster.ErrNoRoute) {
				s.notBefore = p.Now().Add(absent)
			}
		}()
		return
	}
}
