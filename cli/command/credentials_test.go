// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/cli/command"
)

// Neither the user's credentials nor those of the source reach who can choose where an event goes.
func TestTestEventSendsNoCredentials(t *testing.T) {
	t.Parallel()
	var got []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = append(got, "Authorization: "+r.Header.Get("Authorization"))
	}))
	defer other.Close()
	for name, c := range map[string]struct {
		sink string
		code int
		want string
	}{
		"a redirect":                 {"http://sink.shop.svc/", 1, ""},
		"an address with a password": {strings.Replace(other.URL, "://", "://ci:secret@", 1), 0, "Authorization: "},
	} {
		got = nil
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/proxy/") {
				http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"CDEventSource","metadata":{"name":"made","namespace":"shop"},
				"spec":{"sink":{"uri":%[1]q}},"status":{"sinkUri":%[1]q}}`, c.sink)
		}))
		config := written(t, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"a",
			"clusters":[{"name":"a","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],
			"users":[{"name":"a","user":{"token":"of-the-user"}}],"contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}]}`, server.URL))
		r := run(t, config, "", "test-event", "made", "-n", "shop")
		server.Close()
		if command.Code(r.failed) != c.code || strings.Join(got, ", ") != c.want {
			t.Errorf("%s: code %d, %v; another server got %q", name, command.Code(r.failed), r.failed, got)
		}
	}
}
