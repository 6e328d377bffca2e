// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/fnv"
	"time"
)

// fates are the faults of a build, as shares of the requests that it handles.
type fates struct {
	FailRate, SlowRate, HangRate float64
	SlowFor                      time.Duration
}

// fate is the fault of one request.
type fate struct{ fails, slow, hangs bool }

// of depends on the request id alone: a request has the same fate wherever a build with these rates handles it, so a
// run can be repeated and its expected result computed in advance.
func (f fates) of(request string) fate {
	sum := sha256.Sum256([]byte(request))
	return fate{
		fails: draw(sum[0:]) < f.FailRate,
		slow:  draw(sum[8:]) < f.SlowRate,
		hangs: draw(sum[16:]) < f.HangRate,
	}
}

// draw returns a number in [0, 1). A float64 holds 53 bits exactly.
func draw(b []byte) float64 {
	return float64(binary.BigEndian.Uint64(b)>>11) / (1 << 53)
}

// shardOf returns the shard of a cart.
func shardOf(cart string, shards int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(cart))           // a hash never fails
	return int(h.Sum32() % uint32(shards)) //nolint:gosec // at most 1000
}
