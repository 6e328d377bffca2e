// SPDX-License-Identifier: Apache-2.0

package key

import (
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	event := "application/cloudevents+json; charset=utf-8"
	for _, c := range []struct {
		rule, target, header, value, body, want string
	}{
		{"header:X-User", "/", "x-user", "ann", "", "ann"},
		{"header:X-User", "/?X-User=ann", "", "", "", ""},
		{"cookie:session", "/", "Cookie", "a=b; session=s1; session=s2", "", "s1"},
		{"cookie:session", "/", "Cookie", "a=b", "", ""},
		{"query:user", "/x?a=1&user=an%20n&user=b", "", "", "", "an n"},
		{"query:user", "/x?a=%zz&us%65r=ann", "", "", "", "ann"},
		{"query:user", "/x?user", "", "", "", ""},
		{"path:2", "/carts/ann%2Fbob/items", "", "", "", "ann/bob"},
		{"path:2", "/carts", "", "", "", ""},
		{"path:1", "/", "", "", "", ""},
		{"path:/carts/{key}", "/carts/ann", "", "", "", "ann"},
		{"path:/carts/{key}", "/carts/ann/items/5", "", "", "", "ann"},
		{"path:/carts/{key}/items", "/carts/ann", "", "", "", ""},
		{"path:/carts/{key}", "//carts/ann", "", "", "", "ann"},
		{"path:/carts/{key}", "/carts//./ann", "", "", "", "ann"},
		{"path:/carts/{key}", "/x/%2E%2e/carts/ann/", "", "", "", "ann"},
		{"path:/carts/{key}", "/carts/../other/ann", "", "", "", ""},
		{"path:2", "/carts/", "", "", "", ""},
		{"path:/*/carts/{key}", "/v1/carts/ann", "", "", "", "ann"},
		{"path:/carts/{key}", "/other/ann", "", "", "", ""},
		{"event:subject", "/", "Ce-Subject", "order%201", "", "order 1"},
		{"event:subject", "/", "Content-Type", event, `{"specversion":"1.0","subject":"o1","data":{"subject":"no"}}`, "o1"},
		{"event:number", "/", "Content-Type", event, `{"number":12345678901234567}`, "12345678901234567"},
		{"event:subject", "/", "Content-Type", event, `{"id":"1"}`, ""},
		{"event:subject", "/", "Content-Type", event, `not an event`, ""},
		{"event:subject", "/", "Content-Type", "application/json", `{"subject":"o1"}`, ""},
	} {
		key, err := Parse(c.rule)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), "POST", c.target, strings.NewReader(c.body))
		if c.header != "" {
			r.Header.Set(c.header, c.value)
		}
		got, err := key(r)
		if err != nil || got != c.want {
			t.Errorf("%+v: %q %v", c, got, err)
		}
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != c.body {
			t.Errorf("%+v: the body is %q after it was read: %v", c, body, err)
		}
	}
	for rule, body := range map[string]string{"header:X-User": "", "event:subject": strings.Repeat(" ", mostEvent+1)} {
		key, _ := Parse(rule)
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(body))
		r.Header.Set("X-User", strings.Repeat("k", MaxLength+1))
		r.Header.Set("Content-Type", event)
		if _, err := key(r); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", rule, err)
		}
	}
	for _, rule := range []string{
		"", "header", "header:", "header:a b", "query:", "path:", "path:a", "path:-1", "path:/a", "path:/{key}/{key}",
		"event:Subject", "event:", "body:x", "header:Stateful-Shard",
	} {
		if _, err := Parse(rule); err == nil {
			t.Errorf("%q is accepted", rule)
		}
	}
}
