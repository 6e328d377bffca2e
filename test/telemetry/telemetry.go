// SPDX-License-Identifier: Apache-2.0

// Package telemetry receives for tests what is exported by OTLP.
package telemetry

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"google.golang.org/protobuf/proto"
)

// Receive starts a receiver of OTLP over HTTP until the end of the test, and returns its address. It passes each
// message on, which is a request to export traces, metrics or logs. Several may arrive at once.
func Receive[T any, M interface {
	*T
	proto.Message
}](t testing.TB, got func(M)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			var err error
			if body, err = gzip.NewReader(r.Body); err != nil {
				t.Error(err)
				return
			}
		}
		content, err := io.ReadAll(body)
		if err != nil {
			t.Error(err)
		}
		m := M(new(T))
		if err := proto.Unmarshal(content, m); err != nil {
			t.Error(err)
		}
		got(m)
	}))
	t.Cleanup(s.Close)
	return s.URL
}
