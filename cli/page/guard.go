// SPDX-License-Identifier: Apache-2.0

package page

import (
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
	"strings"
)

// policy lets the page load its own files and open its own stream, and nothing else. Without trusted types, the
// script cannot turn text into markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// guard answers only to the user's own browser. The name of the host keeps out pages of other sites whose name
// resolves to this machine (DNS rebinding), and the secret keeps out other users of this machine.
func guard(token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !local(r.Host) {
			http.Error(w, "this page is only for the machine that it runs on: open it as 127.0.0.1 or localhost",
				http.StatusForbidden)
			return
		}
		if r.Header.Get("Sec-Fetch-Mode") != "navigate" &&
			slices.Contains([]string{"cross-site", "same-site"}, r.Header.Get("Sec-Fetch-Site")) {
			http.Error(w, "this page is not for other pages", http.StatusForbidden)
			return
		}
		got, rest, found := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if !found || subtle.ConstantTimeCompare([]byte(got), []byte(token)) != 1 {
			http.Error(w, "not found: open the whole address that the command printed; it changes at each start",
				http.StatusNotFound)
			return
		}
		inner := r.Clone(r.Context())
		inner.URL.Path, inner.URL.RawPath = "/"+rest, ""
		next.ServeHTTP(w, inner)
	})
}

// local reports whether a Host header names this machine. The port may be another one, if it is forwarded.
func local(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	return slices.Contains([]string{"127.0.0.1", "localhost", "::1", "[::1]"}, name)
}
