// SPDX-License-Identifier: Apache-2.0

package scrape

import (
	"context"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// serviceLoop reads the pods of one Service, as long as this process leads for it.
type serviceLoop struct {
	runner *Runner
	key    types.NamespacedName
	// begun is set once the sink knows of the Service.
	begun atomic.Bool
	// ctx ends with the lead; nil as long as nothing was to be read.
	ctx     context.Context //nolint:containedctx // the life of the loop, not of one call
	cancel  context.CancelFunc
	quota   *Quota
	batches sync.WaitGroup
	// planning means that the API server may be waited for.
	planning atomic.Bool
	// looking means the same for pods that are being deleted.
	looking atomic.Bool

	// mu guards the sink and the maps.
	mu       sync.Mutex
	busy     map[Target]bool
	memories map[Target]*Memory
}

// use prepares the loop for readings.
func (l *serviceLoop) use(ctx context.Context) {
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancel(ctx)
		l.quota, l.busy, l.memories = l.runner.Budget.Quota(), map[Target]bool{}, map[Target]*Memory{}
	}
}

func (l *serviceLoop) begin(fresh bool) {
	l.runner.Sink.Begin(l.key, fresh)
	l.begun.Store(true)
}

// end waits for the last readings.
func (l *serviceLoop) end() {
	l.batches.Wait()
	forget(l.memories, nil)
	l.runner.Sink.End(l.key)
}

// readAll reads all pods.
func (l *serviceLoop) readAll(s Settings) {
	if !l.planning.CompareAndSwap(false, true) {
		return // the API server is still being asked whose the pods are
	}
	all := l.runner.Discovery.Targets(l.ctx, l.key)
	l.planning.Store(false)
	l.read(all, s, true)
}

// readDying reads the pods that are being deleted, if all are not due before.
func (l *serviceLoop) readDying(s Settings, due time.Time) {
	if !l.looking.CompareAndSwap(false, true) {
		return
	}
	dying := l.runner.Discovery.Dying(l.ctx, l.key)
	l.looking.Store(false)
	discovery, watched := l.runner.Discovery.(Watched)
	unproven := watched && discovery.HasDying(l.key) // it may not be known yet whose they are
	if len(dying) == 0 && !unproven {
		return
	}
	l.runner.Changed(l.key) // it is time again in a second
	if time.Now().Before(due) {
		s.Limits.Timeout = min(s.Limits.Timeout, dyingEvery)
		l.read(dying, s, false)
	}
}

// read reads those targets that are not being read, and hands the readings to the sink.
func (l *serviceLoop) read(targets []Target, s Settings, all bool) {
	free, known := l.free(targets, s)
	if all {
		l.mu.Lock()
		forget(l.memories, targets)
		l.mu.Unlock()
	}
	if l.ctx.Err() != nil || len(free) == 0 && len(targets) > 0 {
		return
	}
	readings := l.runner.batch(l.ctx, free, known, s)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range free {
		delete(l.busy, identity(t))
	}
	if l.ctx.Err() == nil {
		l.runner.Sink.Read(l.key, readings)
	}
}

// free returns the targets that are not being read, with their memories, and marks them as busy.
func (l *serviceLoop) free(all []Target, s Settings) (free []Target, known []*Memory) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range all {
		id := identity(t)
		if l.busy[id] {
			continue
		}
		l.busy[id] = true
		free = append(free, t)
		reader := s.reader(t)
		if m := l.memories[id]; m == nil || m.reader != reader {
			if m != nil {
				m.release()
			}
			l.memories[id] = newMemory(reader, l.quota)
		}
		known = append(known, l.memories[id])
	}
	return free, known
}

// forget drops the memories of removed targets.
func forget(memories map[Target]*Memory, all []Target) {
	there := make(map[Target]bool, len(all))
	for _, t := range all {
		there[identity(t)] = true
	}
	for id, m := range memories {
		if !there[id] {
			m.release()
			delete(memories, id)
		}
	}
}

// identity is the part of a target that must not be read twice at the same time.
func identity(t Target) Target { return Target{Pod: t.Pod, Entry: t.Entry} }

// batch reads targets concurrently, and returns when all have answered.
func (r *Runner) batch(ctx context.Context, targets []Target, memories []*Memory, s Settings) []Reading {
	out := make([]Reading, len(targets))
	var wait sync.WaitGroup
	for i, t := range targets {
		r.slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-r.slots }()
			out[i] = r.Client.Read(ctx, t, s.Limits, memories[i])
		})
	}
	wait.Wait()
	return out
}

// next returns when a Service is due. Its name decides the offset in every interval, so Services are
// spread out, and neither a restart nor another replica changes the time.
func next(now time.Time, interval time.Duration, key types.NamespacedName) time.Time {
	h := fnv.New64a()
	for _, part := range []string{key.Namespace, "/", key.Name} {
		_, _ = h.Write([]byte(part)) // a hash never fails
	}
	offset := time.Duration(h.Sum64() % uint64(interval)) //nolint:gosec // both are positive
	due := now.Truncate(interval).Add(offset)
	for !due.After(now) {
		due = due.Add(interval)
	}
	return due
}
