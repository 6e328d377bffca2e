// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/clients/sidecar/key"
)

// Events whose key is in the body take no more memory than others before they are counted.
func TestSlowEvents(t *testing.T) {
	f := newFleet(t)
	f.configure = func(c *Config) {
		c.MostOpen = 10
		var err error
		if c.Key, err = key.Parse("event:subject"); err != nil {
			t.Fatal(err)
		}
	}
	a := f.start("stable", &echo{name: "a"})
	var refused atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		conn, in := a.dial(t)
		all.Go(func() {
			_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/cloudevents+json\r\nContent-Length: 1000\r\n\r\n{")
			_ = conn.SetReadDeadline(time.Now().Add(time.Second))
			if line, err := in.ReadString('\n'); err == nil && strings.Contains(line, "503") {
				refused.Add(1)
			}
		})
	}
	all.Wait()
	if refused.Load() != 40 {
		t.Errorf("%d of 50 events were refused, want 40", refused.Load())
	}
}
