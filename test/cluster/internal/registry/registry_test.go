// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

func TestLayersAreReproducible(t *testing.T) {
	t.Parallel()
	files := []File{
		{Name: "bin", Dir: true, Mode: 0o755},
		{Name: "bin/tool", Content: []byte("tool"), Mode: 0o755},
		{Name: "bin/link", Link: "tool", Mode: 0o777},
	}
	a, err := NewLayer(files)
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewLayer(files)
	if err != nil || a.Digest != b.Digest || a.DiffID != b.DiffID {
		t.Errorf("two layers of one content: %v, %v, %v", a.Digest, b.Digest, err)
	}
	gz, err := gzip.NewReader(bytes.NewReader(a.Blob))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for tr := tar.NewReader(gz); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name+h.Linkname)
	}
	if got := strings.Join(names, " "); got != "bin/ bin/tool bin/linktool" {
		t.Errorf("got %q", got)
	}
}

// fake stores what is pushed, and requires a manifest's blobs to be pushed first.
type fake struct {
	mu        sync.Mutex
	blobs     map[string]bool
	manifests map[string]string
	uploads   int
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch path := r.URL.Path; {
	case path == "/v2/":
	case r.Method == http.MethodPost:
		w.Header().Set("Location", "http://"+r.Host+"/upload?state=x")
		w.WriteHeader(http.StatusAccepted)
	case path == "/upload":
		if got := r.URL.Query().Get("digest"); got != digest(body) || r.URL.Query().Get("state") != "x" {
			http.Error(w, "wrong upload "+r.URL.String(), http.StatusBadRequest)
			return
		}
		f.uploads++
		f.blobs[digest(body)] = true
		w.WriteHeader(http.StatusCreated)
	case strings.Contains(path, "/blobs/"):
		if !f.blobs[path[strings.LastIndex(path, "/")+1:]] {
			http.NotFound(w, r)
		}
	case r.Method == http.MethodPut:
		for d := range strings.SplitSeq(string(body), `"digest":"`) {
			if d = d[:min(len(d), 71)]; strings.HasPrefix(d, "sha256:") && !f.blobs[d] {
				http.Error(w, "missing blob "+d, http.StatusBadRequest)
				return
			}
		}
		f.manifests[path], f.manifests[path[:strings.LastIndex(path, "/")+1]+digest(body)] = string(body), string(body)
		w.WriteHeader(http.StatusCreated)
	default:
		text, ok := f.manifests[path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", manifestType)
		_, _ = io.WriteString(w, text) // ignore a client that has disconnected
	}
}

func TestPushOnceHasAndRetag(t *testing.T) {
	t.Parallel()
	f := &fake{blobs: map[string]bool{}, manifests: map[string]string{}}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	r := New(strings.TrimPrefix(s.URL, "http://"))
	if err := r.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	layer, err := NewLayer([]File{{Name: "x", Content: []byte("x"), Mode: 0o644}})
	if err != nil {
		t.Fatal(err)
	}
	layer.Annotations = map[string]string{"io.example": "base"}
	img := Image{Name: "a/b", Tag: "latest", Layers: []Layer{layer}, Entrypoint: []string{"/x"}, User: "65532"}
	ref, err := r.Push(t.Context(), img)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(ref, r.Host+"/a/b@sha256:") || !r.Has(t.Context(), ref) {
		t.Errorf("pushed %q", ref)
	}
	if got := f.manifests["/v2/a/b/manifests/latest"]; strings.Count(got, `"annotations":{"io.example":"base"}`) != 1 {
		t.Errorf("the manifest is %s", got)
	}
	before := f.uploads
	if again, err := r.Push(t.Context(), img); err != nil || again != ref || f.uploads != before {
		t.Errorf("the second push: %q, %v, %d uploads", again, err, f.uploads-before)
	}
	if r.Has(t.Context(), r.Host+"/a/b@"+digest([]byte("other"))) {
		t.Error("Has reports an image that was never pushed")
	}
	if err := r.Retag(t.Context(), ref, "v2"); err != nil {
		t.Error(err)
	}
	if f.manifests["/v2/a/b/manifests/v2"] != f.manifests["/v2/a/b/manifests/latest"] {
		t.Error("the new tag names another image")
	}
}

func TestPushReportsTheRegistrysError(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the disk is full", http.StatusInsufficientStorage)
	}))
	t.Cleanup(s.Close)
	_, err := New(strings.TrimPrefix(s.URL, "http://")).Push(t.Context(), Image{Name: "a", Tag: "b"})
	if err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("got %v", err)
	}
}
