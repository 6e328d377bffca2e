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
func TestOldKubernetesIsRefused(t *testing.T) {
	t.Parallel()
	for found, want := range map[string]string{
		"v1.33.4": `version "1.33.4" is not compatible, need at least "1.34.0`, "v1.34.0": "", "v1.36.3+rke2r1": "",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/version" {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"gitVersion":%q}`, found)
		}))
		err := checkVersion(&rest.Config{Host: server.URL})
		server.Close()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", found, err)
		}
	}
}
