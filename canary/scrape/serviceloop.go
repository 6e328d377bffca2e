package scrape

import (
	"context"
	"hash/fnv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// serviceLoop reads the pods of one Service.
type serviceLoop struct {
	runner  *Runner
	key     types.NamespacedName
	share   *Share
	batches sync.WaitGroup

	// mu guards the sink and the maps.
	mu       sync.Mutex
	busy     map[Target]bool
	memories map[Target]*Memory
}

// service reads the pods of one Service until it is stopped.
func (r *Runner) service(ctx context.Context, key types.NamespacedName, fresh bool) {
	// Targets finds the pods of the Service. Begin then records the existing ones as pods that have
	// counted before.
	r.Plan.Targets(ctx, key)
	r.Sink.Begin(key, fresh)
	defer r.Sink.End(key)
	l := &serviceLoop{runner: r, key: key, share: r.Budget.Share(), busy: map[Target]bool{}, memories: map[Target]*Memory{}}
	defer l.batches.Wait()
	defer func() { forget(l.memories, nil) }()
	for {
		s := r.Settings()
		if !l.untilDue(ctx, s) {
			return
		}
		all := r.Plan.Targets(ctx, key)
		l.begin(ctx, all, s)
		l.mu.Lock()
		forget(l.memories, all)
		l.mu.Unlock()
	}
}

// untilDue waits until the Service is due. Meanwhile, it reads the pods that are being deleted. It
// returns false if the context ends.
func (l *serviceLoop) untilDue(ctx context.Context, s Settings) bool {
	due := next(time.Now(), s.Interval, l.key)
	for {
		pause := min(time.Until(due), dyingEvery)
		if pause <= 0 {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
		if dying := l.runner.Plan.Dying(ctx, l.key); len(dying) > 0 && time.Now().Before(due) {
			quick := s
			quick.Limits.Timeout = min(s.Limits.Timeout, dyingEvery)
			l.begin(ctx, dying, quick)
		}
	}
}

// begin starts reading the targets that are not being read, and hands the readings to the sink.
func (l *serviceLoop) begin(ctx context.Context, all []Target, s Settings) {
	free, known := l.free(all, s)
	if len(free) == 0 && len(all) > 0 {
		return
	}
	l.batches.Go(func() {
		readings := l.runner.batch(ctx, free, known, s)
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, t := range free {
			delete(l.busy, identity(t))
		}
		if ctx.Err() == nil {
			l.runner.Sink.Read(l.key, readings)
		}
	})
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
			l.memories[id] = newMemory(reader, l.share)
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
	_, _ = h.Write([]byte(key.String()))                  // a hash never fails
	offset := time.Duration(h.Sum64() % uint64(interval)) //nolint:gosec // both are positive
	due := now.Truncate(interval).Add(offset)
	for !due.After(now) {
		due = due.Add(interval)
	}
	return due
}
