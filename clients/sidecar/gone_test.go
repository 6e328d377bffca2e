// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"net/http"
	"testing"
	"time"
)

// A request that was forwarded to a pod which then is gone does not wait for an answer that cannot come.
func TestForwardedToAPodThatIsGone(t *testing.T) {
	f, a, b, _ := two(t)
	f.do(a, http.MethodGet, "/", keyOf(3), "") // the connection is there
	frozen := make(chan struct{})
	begun := make(chan struct{})
	go b.member.Serial(func() { close(begun); <-frozen })
	<-begun
	defer close(frozen)
	for _, client := range []http.RoundTripper{&http.Transport{}, h2c()} {
		done := make(chan int, 1)
		go func() {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, a.entry+"/", nil)
			req.Header.Set("X-Key", keyOf(3))
			resp, err := client.RoundTrip(req)
			if err != nil {
				done <- 0
				return
			}
			_ = resp.Body.Close()
			done <- resp.StatusCode
		}()
		defer func() {
			select {
			case status := <-done:
				if status != http.StatusBadGateway {
					t.Errorf("the answer is %d", status)
				}
			case <-time.After(5 * time.Second):
				t.Error("the request still waits")
			}
		}()
	}
	time.Sleep(300 * time.Millisecond) // both are sent
	f.controller.gone(b.name)
}
