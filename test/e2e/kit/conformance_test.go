// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestServicesGetAnnotations(t *testing.T) {
	t.Parallel()
	got := ""
	next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.ContentLength != int64(len(body)) {
			t.Errorf("%d bytes of %d, %v", len(body), r.ContentLength, err)
		}
		got = string(body)
	})
	const services = "/apis/serving.knative.dev/v1/namespaces/shop/services"
	const plain, changed = `{"spec":{"template":{"metadata":null}}}`, `{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}`
	for request, want := range map[string]string{
		"POST " + services: changed, "PUT " + services + "/cart": changed, "PATCH " + services + "/cart": plain,
		"PUT " + services + "/cart/status": plain, "POST /api/v1/namespaces/shop/services": plain,
	} {
		method, path, _ := strings.Cut(request, " ")
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(plain))
		annotate(next, map[string]string{"a": "b"}).ServeHTTP(httptest.NewRecorder(), r)
		if got != want {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
}

func TestResultsOfTests(t *testing.T) {
	t.Parallel()
	const out = "=== RUN   TestA\n--- PASS: TestA (0.00s)\n    --- FAIL: TestB/c (1.50s)\n        a.go:1: --- PASS: x\n--- SKIP: TestC (0.00s)\n"
	var got []string
	for _, found := range result.FindAllStringSubmatch(out, -1) {
		got = append(got, found[1]+" "+found[2])
	}
	if s := strings.Join(got, ", "); s != "PASS TestA, FAIL TestB/c, SKIP TestC" {
		t.Error(s)
	}
}
