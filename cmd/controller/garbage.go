// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// startGCPercent is how much garbage may grow while the caches are filled, in per cent of what is in use. What stays lies
	// between what is already garbage then, and memory in which little stays cannot be returned later.
	startGCPercent = 20
	// gcPercent is the same afterwards, for a large heap. It is Go's default.
	gcPercent = 100
	// gcFloor is how many bytes of garbage may grow in any case. A collection delays the events that are on their way by some
	// milliseconds. With a small heap, those delays would decide how late the latest one in a hundred arrives.
	gcFloor = 64 << 20
)

// collectOften keeps garbage small while the process starts. Neither it nor collectSeldom does anything if GOGC is set.
func collectOften() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(startGCPercent)
	}
}

// collectSeldom lets garbage grow as usual, but to gcFloor at least. At rest, trim returns it.
func collectSeldom() {
	if os.Getenv("GOGC") == "" {
		adapt()
	}
}

// adapt sets the percentage for what is in use now, and does so again after each collection.
func adapt() {
	debug.SetGCPercent(percentFor(inUse()))
	// The runtime calls this when it finds that nothing refers to the object: after the next collection.
	runtime.AddCleanup(new(*byte), func(struct{}) { adapt() }, struct{}{})
}

// percentFor returns how much garbage may grow beside so many bytes in use, in per cent.
func percentFor(inUse uint64) int {
	return int(max(gcPercent, gcFloor*100/max(inUse, 1<<20))) //nolint:gosec // at most 6400
}

// inUse returns how many bytes were in use at the last collection.
func inUse() uint64 { return runtimeMetric("/gc/heap/live:bytes") }

// runtimeMetric returns a number of package runtime/metrics.
func runtimeMetric(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
