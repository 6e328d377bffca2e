// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// A cluster that is too old is refused by the name of its version.
func TestOldClusterIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kubernetes, serving, want string }{
		{"v1.33.4", "1.23.0", `version "1.33.4" is not compatible, need at least "1.34.0`},
		{"v1.34.0", "1.19.1", ""},
		{"v1.36.3+rke2r1", "", ""},
		{"v1.36.3", "1.18.2", "version 1.18.2 of Knative Serving is not supported; it must be at least 1.19.1"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case r.URL.Path == "/version":
				_, _ = fmt.Fprintf(w, `{"gitVersion":%q}`, c.kubernetes)
			case strings.HasSuffix(r.URL.Path, "/customresourcedefinitions/services.serving.knative.dev") && c.serving != "":
				_, _ = fmt.Fprintf(w, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",`+
					`"metadata":{"labels":{"app.kubernetes.io/version":%q}}}`, c.serving)
			default:
				http.NotFound(w, r)
			}
		}))
		err := checkVersions(t.Context(), &rest.Config{Host: server.URL})
		server.Close()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: %v", c.kubernetes, c.serving, err)
		}
	}
}
