// SPDX-License-Identifier: Apache-2.0

package http

import (
	"net/http"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

// The first case is the example in the specification.
func TestHeaderEncoding(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"Euro € 😀":            "Euro%20%E2%82%AC%20%F0%9F%98%80",
		`100% "sure"`:         "100%25%20%22sure%22",
		"a\r\nX-Evil: 1":      "a%0D%0AX-Evil:%201",
		"\x7fé":               "%7F%C3%A9",
		"https://a.b/c?d=e&f": "https://a.b/c?d=e&f",
		"%20":                 "%2520",
	} {
		got := make(chan http.Header, 1)
		s := serve(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header })
		ev := newEvent(t)
		ev.SetExtension("team", value)
		if out := local().Send(t.Context(), at(s.URL), ev, quick()); out.Class != transport.Acknowledged {
			t.Errorf("%q: %v", value, out)
			continue
		}
		header := <-got
		if header.Get("Ce-Team") != want || header.Get("X-Evil") != "" {
			t.Errorf("%q arrives as %q, want %q", value, header.Get("Ce-Team"), want)
		}
		if header.Get("Content-Type") != "application/json" {
			t.Errorf("the content type is %q", header.Get("Content-Type"))
		}
	}
}
