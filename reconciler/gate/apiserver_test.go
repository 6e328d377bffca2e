// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// apiServer stores objects like an API server, with resource versions, preconditions
// and status subresources. It has no watch: a test fills caches itself.
type apiServer struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string]map[string]any
	version int
	// refuse selects the requests that fail, by method and path.
	refuse func(string) bool
	asked  []string
	// full refuses what is kept of finished runs.
	full bool
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{objects: map[string]map[string]any{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func meta(o map[string]any) map[string]any {
	m, ok := o["metadata"].(map[string]any)
	if !ok {
		m = map[string]any{}
		o["metadata"] = m
	}
	return m
}

func (s *apiServer) write(path string, o map[string]any) {
	s.version++
	meta(o)["resourceVersion"] = strconv.Itoa(s.version)
	s.objects[path] = o
}

func (s *apiServer) fail(w http.ResponseWriter, code int32, reason metav1.StatusReason) {
	w.WriteHeader(int(code))
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: reason, Code: code})
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	asked := r.Method + " " + r.URL.Path
	s.asked = append(s.asked, asked)
	if s.refuse != nil && s.refuse(asked) {
		s.fail(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
		return
	}
	var body map[string]any
	if raw, err := io.ReadAll(r.Body); err == nil && len(raw) > 0 {
		if err := json.Unmarshal(raw, &body); err != nil {
			s.fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
			return
		}
	}
	path, ofStatus := strings.CutSuffix(r.URL.Path, "/status")
	is, exists := s.objects[path]
	switch {
	case r.Method == http.MethodPost && s.full && meta(body)["labels"] != nil:
		s.fail(w, http.StatusForbidden, metav1.StatusReasonForbidden)
	case r.Method == http.MethodPost:
		path += "/" + fmt.Sprint(meta(body)["name"])
		if _, taken := s.objects[path]; taken {
			s.fail(w, http.StatusConflict, metav1.StatusReasonAlreadyExists)
			return
		}
		if meta(body)["uid"] == nil {
			meta(body)["uid"] = "uid-" + strconv.Itoa(s.version)
		}
		meta(body)["namespace"] = strings.Split(path, "/")[5]
		s.write(path, body)
		_ = json.NewEncoder(w).Encode(body)
	case r.Method == http.MethodGet && !exists && strings.Count(path, "/") < 7 && !strings.HasPrefix(path, templatePath):
		items := []any{}
		label, without := strings.CutPrefix(r.URL.Query().Get("labelSelector"), "!")
		for _, p := range slices.Sorted(maps.Keys(s.objects)) {
			labels, _ := meta(s.objects[p])["labels"].(map[string]any)
			if _, has := labels[label]; strings.HasPrefix(p, path+"/") && (label == "" || has != without) {
				items = append(items, s.objects[p])
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "List", "apiVersion": "v1", "metadata": map[string]any{}, "items": items})
	case !exists:
		s.fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	case r.Method == http.MethodGet:
		_ = json.NewEncoder(w).Encode(is)
	case r.Method == http.MethodPut:
		if v := meta(body)["resourceVersion"]; v != nil && v != meta(is)["resourceVersion"] {
			s.fail(w, http.StatusConflict, metav1.StatusReasonConflict)
			return
		}
		next := maps.Clone(is)
		next["metadata"] = maps.Clone(meta(is))
		if ofStatus {
			next["status"] = body["status"]
		} else {
			next = body
		}
		s.write(path, next)
		_ = json.NewEncoder(w).Encode(next)
	case r.Method == http.MethodDelete:
		p, _ := body["preconditions"].(map[string]any)
		if v := p["resourceVersion"]; v != nil && v != meta(is)["resourceVersion"] {
			s.fail(w, http.StatusConflict, metav1.StatusReasonConflict)
			return
		}
		delete(s.objects, path)
		_ = json.NewEncoder(w).Encode(metav1.Status{Status: "Success"})
	}
}

// put writes an object without any checks.
func (s *apiServer) put(t *testing.T, path, content string) {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(content), &o); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(path, o)
}

// get returns an object as JSON, or an empty string.
func (s *apiServer) get(path string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[path]
	if !ok {
		return ""
	}
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err) // it arrived as JSON
	}
	return string(raw)
}

func (s *apiServer) refusing(f func(string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = f
}

func (s *apiServer) remove(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, path)
}
