// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"runtime/debug"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	trimEvery = time.Minute
	// startFor is how long the start takes at most.
	startFor = 5 * time.Minute
	// busyAllocations is how much a process allocates between two looks that is not at rest, and trimAfter how much garbage makes it
	// worth returning. Both are in bytes.
	busyAllocations = 16 << 20
	trimAfter       = 4 << 20
)

// trim returns memory to the operating system while the process is at rest. Go keeps what the last burst or the start needed, and
// lets as much garbage grow as memory is in use; at rest, that would be half of the memory.
func (p *process) trim(ctx context.Context) {
	t := trimming{}
	wait.UntilWithContext(ctx, func(context.Context) {
		if t.due(allocated()) {
			debug.FreeOSMemory()
		}
	}, trimEvery)
}

// endStart has less garbage collected when the caches are filled: the ledger is known, and nothing waits for three seconds.
func (c *controllers) endStart(ctx context.Context, waiting func() int) {
	defer collectSeldom()
	quiet := 0
	_ = wait.PollUntilContextTimeout(ctx, time.Second, startFor, false, func(context.Context) (bool, error) { // at the latest, then
		if quiet++; !c.emitting.known.Load() || waiting() > 0 {
			quiet = 0
		}
		return quiet == 3, nil
	})
}

// trimming remembers how much was allocated at the last look, and when memory was last returned.
type trimming struct{ looked, trimmed uint64 }

// due reports whether memory is to be returned, given how much has been allocated since the start.
func (t *trimming) due(allocated uint64) bool {
	atRest := t.looked > 0 && allocated-t.looked < busyAllocations
	t.looked = allocated
	if !atRest || allocated-t.trimmed < trimAfter {
		return false
	}
	t.trimmed = allocated
	return true
}

// allocated returns how many bytes this process has allocated since it started.
func allocated() uint64 { return runtimeMetric("/gc/heap/allocs:bytes") }
