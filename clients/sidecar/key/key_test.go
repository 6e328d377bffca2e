// SPDX-License-Identifier: Apache-2.0

package key

import (
	"errors"
	"io"
	"net/http/httptest"
	"runtime"
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
		{"path:/carts/{key}/", "/carts/ann", "", "", "", "ann"},
		{"path:/carts/{key}/", "/carts/ann/items", "", "", "", "ann"},
		{"event:subject", "/", "Ce-Subject", "order%201", "", "order 1"},
		{"event:subject", "/", "Ce-Subject", `"order%201"`, "", "order 1"},
		{"event:subject", "/", "Ce-Subject", `"a \"b\\"`, "", `a "b\`},
		{"event:subject", "/", "Ce-Subject", `"`, "", `"`},
		{"event:subject", "/", "Content-Type", "application/cloudevents-batch+json", `[{"subject":"o1"}]`, ""},
		{"event:subject", "/", "Content-Type", event, `{"specversion":"1.0","subject":"o1","data":{"subject":"no"}}`, "o1"},
		{"event:number", "/", "Content-Type", event, `{"number":12345678901234567}`, "12345678901234567"},
		{"event:subject", "/", "Content-Type", event, `{"data":[{"subject":"no"}],"subject":"o1","subject":"o2"}`, "o2"},
		{"event:subject", "/", "Content-Type", event, `{"s\u0075bject":"o\u0031"}`, "o1"},
		{"event:subject", "/", "Content-Type", event, `{"subject":true}`, "true"},
		{"event:subject", "/", "Content-Type", event, `{"subject":null}`, ""},
		{"event:subject", "/", "Content-Type", event, `{"subject":["o1"]}`, ""},
		{"event:subject", "/", "Content-Type", event, `{"subject":{"a":"o1"}}`, ""},
		{"event:subject", "/", "Content-Type", event, `[{"subject":"o1"}]`, ""},
		{"event:subject", "/", "Content-Type", event, `{"subject":"o1"`, ""},
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
	for rule, body := range map[string]string{"header:X-User": "", "event:subject": strings.Repeat(" ", MaxEvent+1)} {
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
		"path:/%zz/{key}", "event:Subject", "event:", "body:x", "header:Stateful-Shard",
		"header:host", "path://carts/{key}", "path:/./{key}", "path:/a/%2E./{key}",
	} {
		if _, err := Parse(rule); err == nil {
			t.Errorf("%q is accepted", rule)
		}
	}
}

// An event needs no more memory than a few copies of it, whatever it is made of.
func TestMemoryOfEvents(t *testing.T) {
	key, err := Parse("event:subject")
	if err != nil {
		t.Fatal(err)
	}
	values := (MaxEvent - 100) / len(`{"a":1},`)
	body := `{"subject":[` + strings.Repeat(`{"a":1},`, values) + `1]}`
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/cloudevents+json")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := key(r); err != nil {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 16*MaxEvent {
		t.Errorf("an event of %d KiB took %d KiB", len(body)>>10, used>>10)
	}
}

// Which spellings of a path have the same key, as the README says.
func TestSpellingsOfPaths(t *testing.T) {
	t.Parallel()
	const rule, escaped, second = "path:/carts/{key}", "path:/c%61rts/{key}", "path:2"
	for _, c := range []struct{ target, want, second string }{
		{"/carts/ann", "ann", "ann"},
		// The same by RFC 3986: letters, digits, and - . _ ~ may be escaped.
		{"/carts/%61nn", "ann", "ann"},
		{"/%63arts/ann", "ann", "ann"},
		{"/c%61%72ts/%61%6E%6e", "ann", "ann"},
		{"/carts/a%2D%2e%5F%7e1", "a-._~1", "a-._~1"},
		{"/carts/x/%2e%2E/ann", "ann", "ann"},
		{"/x/../carts/ann", "ann", "ann"},
		{"/carts/./ann", "ann", "ann"},
		// Empty segments do not count, and neither does what follows the pattern.
		{"//carts///ann", "ann", "ann"},
		{"/carts/ann/", "ann", "ann"},
		{"/carts/ann//", "ann", "ann"},
		{"/carts/ann?x=/carts/bob", "ann", "ann"},
		{"/carts/", "", ""},
		// Other escapes are a part of their segment.
		{"/carts/a%40b", "a@b", "a@b"},
		{"/carts/a@b", "a@b", "a@b"},
		{"/carts%2Fann", "", ""},
		{"/carts/ann%2fbob", "ann/bob", "ann/bob"},
		{"/carts/x%2F..%2Fann", "x/../ann", "x/../ann"},
		{"/carts/%2561nn", "%61nn", "%61nn"},
		// What is another key, or none.
		{"/carts/Ann", "Ann", "Ann"},
		{"/Carts/ann", "", "ann"},
		{"/carts;a=b/ann", "", "ann"},
		{"/carts/ann;a=b", "ann;a=b", "ann;a=b"},
		{"/carts/x/..;/ann", "x", "x"},
		{"/carts/ann+bob", "ann+bob", "ann+bob"},
	} {
		for r, want := range map[string]string{rule: c.want, escaped: c.want, second: c.second} {
			key, err := Parse(r)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := key(httptest.NewRequestWithContext(t.Context(), "GET", c.target, nil)); err != nil || got != want {
				t.Errorf("%s of %s is %q, want %q: %v", r, c.target, got, want, err)
			}
		}
	}
}
