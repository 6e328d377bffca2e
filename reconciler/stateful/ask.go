// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ask queries all pods of a cluster in parallel, for the members that they know and the
// shards that they hold: of the entity types that they declare, and of those that are planned. An older
// Revision may have a type that only the newest one declares.
func (w *Watcher) ask(ctx context.Context, subjects []subject) map[string]answer {
	var planned []string
	if len(subjects) > 0 {
		if d := newest(subjects).declared; d.Placement != "" {
			planned = d.EntityTypes
		}
	}
	var mu sync.Mutex
	var asking sync.WaitGroup
	out := map[string]answer{}
	for _, s := range subjects {
		at, err := s.management()
		if err != nil {
			continue
		}
		asking.Go(func() {
			a := w.askOne(ctx, at, union(s.declared.EntityTypes, planned))
			mu.Lock()
			defer mu.Unlock()
			out[s.pod.IP] = a
		})
	}
	asking.Wait()
	return out
}

var errNoManagement = errors.New("the pod has no management API")

// management returns the address of the pod's management API. It is always the pod's own
// IP address.
func (s subject) management() (netip.AddrPort, error) {
	if s.declared.ManagementPort == 0 || !s.live() {
		return netip.AddrPort{}, errNoManagement
	}
	ip, err := netip.ParseAddr(s.pod.IP)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("parsing the IP address of pod %s: %w", s.pod.Name, err)
	}
	return netip.AddrPortFrom(ip, uint16(s.declared.ManagementPort)), nil //nolint:gosec // it was parsed as a port
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

func (w *Watcher) askOne(ctx context.Context, at netip.AddrPort, entityTypes []string) answer {
	var a answer
	if a.members, a.err = w.API.Members(ctx, at); a.err != nil || len(entityTypes) == 0 {
		return a
	}
	a.shards = map[string][]string{}
	for _, entityType := range entityTypes {
		held, err := w.API.Shards(ctx, at, entityType)
		if err != nil {
			a.err = err // keep what the pod did answer
			continue
		}
		a.shards[entityType] = held
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
	// not is the time before which no stream is opened.
	not time.Time
}

// follow opens a stream to the first Ready pod, unless one is open already.
func (w *Watcher) follow(key types.NamespacedName, c *cluster, subjects []subject) {
	s := &c.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open || w.Now().Before(s.not) {
		return
	}
	for _, one := range subjects {
		at, err := one.management()
		if err != nil || !one.pod.Ready {
			continue
		}
		s.open = true
		go func() {
			err := w.API.Events(c.ended, at, func(string) { w.Changed(key) })
			s.mu.Lock()
			defer s.mu.Unlock()
			s.open, s.not = false, w.Now().Add(reopen)
			if errors.Is(err, errNoRoute) {
				s.not = w.Now().Add(absent)
			}
		}()
		return
	}
}
