// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A member may end visits while the application acquires the shard: nothing is read that is being written.
func TestCancelledWhileAcquiring(t *testing.T) {
	f := newFleet(t)
	var n atomic.Int64
	a := f.start("stable", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.stateful/") {
			n.Add(1)
			time.Sleep(20 * time.Millisecond)
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	for i := range 40 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(18+i%5)*time.Millisecond)
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, a.entry+"/", nil)
		req.Header.Set("X-Key", keyOf(i))
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
		}
		cancel()
	}
}
