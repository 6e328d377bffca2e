// SPDX-License-Identifier: Apache-2.0

package doorbell

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// cut is a response that ends after so many bytes, wherever that is in an object.
type cut struct {
	http.ResponseWriter
	left int
	// clean ends it as if everything had been sent.
	clean bool
}

func (c *cut) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left >= 0 {
		return c.ResponseWriter.Write(p)
	}
	_, _ = c.ResponseWriter.Write(p[:max(0, len(p)+c.left)])
	if f, ok := c.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
	if !c.clean {
		panic(http.ErrAbortHandler)
	}
	return 0, errEnd
}

func (c *cut) Flush() {
	if f, ok := c.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

var errEnd = fmt.Errorf("the response ends here")

// late has the API server, or what is in front of it, never begin a watch. It is asked again.
func late(t *testing.T, w *world, ns string) {
	api, core := w.between(t), newCoreServer(t)
	var held atomic.Bool
	api.setDisturb(func(_ http.ResponseWriter, r *http.Request) bool {
		hold := r.URL.Query().Has("watch") && strings.HasSuffix(r.URL.Path, "/services") && held.CompareAndSwap(false, true)
		if hold {
			<-r.Context().Done()
		}
		return hold
	})
	w.start(t, api, core, ns, func(d *Doorbell) {
		for _, w := range d.watchers {
			w.startWithin = time.Second
		}
	})
	eventually(t, "a watch is held", held.Load)
	w.add(Services, ns, "cart")
	eventually(t, "what happens meanwhile is rung", func() bool { return core.got("Service "+ns+"/cart") > 0 })
}

// hostile is random with an API server, and what is in front of it, that do everything that they may, and more: GOAWAY,
// redirects, refusals, responses that end in an object, errors in a watch, and pages of somebody else.
func hostile(t *testing.T, w *world, ns string) {
	api := w.secured(t)
	var mu sync.Mutex
	seen := map[string]int{}
	var second atomic.Int32
	did := func(what string) bool {
		mu.Lock()
		defer mu.Unlock()
		seen[what]++
		return true
	}
	api.setDisturb(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.ProtoMajor == 2 {
			second.Add(1)
		}
		watch, list := r.URL.Query().Has("watch"), strings.Contains(r.Header.Get("Accept"), "List")
		switch rand.N(16) {
		case 0:
			rw.Header().Set("Connection", "close") // HTTP/2 sends a GOAWAY for it, and goes on
			did("goaway")
			return false
		case 1:
			did("reset")
			panic(http.ErrAbortHandler)
		case 2:
			http.Redirect(rw, r, "https://127.0.0.1:1/elsewhere", http.StatusTemporaryRedirect)
			return did("redirect")
		case 3:
			codes := []int{400, 401, 403, 408, 409, 410, 429, 500, 502, 503, 504}
			code := codes[rand.N(len(codes))]
			rw.Header().Set("Retry-After", "1")
			rw.WriteHeader(code)
			_, _ = fmt.Fprintf(rw, `{"kind":"Status","metadata":{"continue":%q},"code":%d}`, strings.Repeat("x", rand.N(3)), code)
			return did("status")
		case 4:
			_, _ = rw.Write([]byte("<html>Sign in to the network</html>"))
			return did("somebody else")
		case 5, 6, 7:
			if !watch && !list {
				return false
			}
			did("cut")
			api.through(&cut{rw, rand.N(3000), rand.N(2) == 0}, r)
			return true
		case 8:
			if !watch {
				return false
			}
			codes := []int{0, 400, 410, 410, 429, 500, 504}
			_, _ = fmt.Fprintf(rw, `{"type":"ERROR","object":{"kind":"Status","code":%d,"message":"no"}}`+"\n", codes[rand.N(len(codes))])
			return did("error")
		case 9:
			if !watch {
				return false
			}
			_, _ = rw.Write([]byte(`{"type":"BOOKMARK","object":{"metadata":{}}}` + "\n")) // of no resourceVersion
			return did("bookmark")
		}
		return false
	})
	randomly(t, w, ns, api, 1000, 12)
	mu.Lock()
	defer mu.Unlock()
	t.Log(seen)
	if second.Load() == 0 {
		t.Error("HTTP/2 was not used")
	}
}
