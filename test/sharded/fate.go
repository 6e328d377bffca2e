package main

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/fnv"
	"time"
)

// fates are what a build does wrong, as shares of the requests that it handles.
type fates struct {
	FailRate, SlowRate, HangRate float64
	SlowFor                      time.Duration
}

// fate of one request.
type fate struct{ fails, slow, hangs bool }

// of depends on the request's id alone: the same requests meet the same fate wherever a build with these rates
// handles them, so that a run can be repeated and its truth computed beforehand.
func (f fates) of(request string) fate {
	sum := sha256.Sum256([]byte(request))
	return fate{
		fails: draw(sum[0:]) < f.FailRate,
		slow:  draw(sum[8:]) < f.SlowRate,
		hangs: draw(sum[16:]) < f.HangRate,
	}
}

// draw is a number from 0 to less than 1. 53 bits are what a float64 holds exactly.
func draw(b []byte) float64 {
	return float64(binary.BigEndian.Uint64(b)>>11) / (1 << 53)
}

// shardOf tells where a cart lives.
func shardOf(cart string, shards int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(cart))           // a hash takes everything
	return int(h.Sum32() % uint32(shards)) //nolint:gosec // at most 1000
}
