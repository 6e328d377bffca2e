package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	trimEvery = time.Minute
	// startFor is how long the start takes at most, in looks.
	startFor = 5
	// busyAllocations is how much a process allocates between two looks that is not at rest, and trimAfter how much garbage makes it
	// worth returning. Both are in bytes.
	busyAllocations = 16 << 20
	trimAfter       = 4 << 20
)

// trim returns memory to the operating system while the process is at rest. Go keeps what the last burst or the start needed, and
// lets half as much garbage grow as memory is in use; at rest, that is most of the memory.
func (p *process) trim(ctx context.Context) {
	t, looks := trimming{}, 0 // looks end with the start
	wait.UntilWithContext(ctx, func(context.Context) {
		due := t.due(allocated())
		if looks < startFor {
			if looks++; due || looks == startFor {
				looks = startFor
				collect(gcPercent)
			}
		}
		if due {
			debug.FreeOSMemory()
		}
	}, trimEvery)
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
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
