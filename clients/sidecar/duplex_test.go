// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"bufio"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// The container may answer while it reads, over HTTP/1.1 too.
func TestFullDuplexOfHTTP1(t *testing.T) {
	streaming(t, func(t *testing.T, _ *fleet, entry *pod, _ *streams, key string) {
		for range 30 { // whether the answer or the body comes first is a matter of chance
			fullDuplex(t, entry, key)
		}
	})
}

func fullDuplex(t *testing.T, entry *pod, key string) {
	t.Helper()
	conn, in := entry.dial(t)
	_, _ = fmt.Fprintf(conn, "POST /grpc HTTP/1.1\r\nHost: a\r\nX-Key: %s\r\nTransfer-Encoding: chunked\r\n\r\n", key)
	_, _ = fmt.Fprintf(conn, "6\r\nline0\n\r\n")
	_ = conn.SetReadDeadline(time.Now().Add(3 * time.Second))
	resp, err := http.ReadResponse(in, nil) //nolint:bodyclose // it ends with the connection
	if err != nil {
		t.Fatal(err)
	}
	body := bufio.NewReader(resp.Body)
	for i := range 5 {
		if line, err := body.ReadString('\n'); err != nil || line != fmt.Sprintf("HTTP/1.1 line%d\n", i) {
			t.Fatalf("%q %v", line, err)
		}
		_, _ = fmt.Fprintf(conn, "6\r\nline%d\n\r\n", i+1)
	}
	_ = conn.Close()
}
