// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/cli/page"
	"github.com/knative-cdevents/knative-cdevents/cli/reader"
	"github.com/knative-cdevents/knative-cdevents/test/fleet"
)

// TestInBrowser lets a real browser use the page: test/browser/page.test.mjs. With PAGE_PICTURES=docs/images, as seen from
// the root of the repository, it takes the pictures of the documentation instead. With PAGE_HOLD=10m, the page is served
// for so long, to look at; -v shows its address, and the one that changes what it shows.
func TestInBrowser(t *testing.T) {
	dir := filepath.Join("..", "..", "test", "browser")
	hold, _ := time.ParseDuration(os.Getenv("PAGE_HOLD"))
	if hold == 0 {
		for _, name := range []string{"chromium", "node"} {
			if _, err := exec.LookPath(name); err != nil {
				t.Skipf("%s is missing; to install it: make deps DEPS=--browser", name)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
			t.Skipf("the browser's modules are missing; \"make test\" installs them, and alone: npm ci --prefix test/browser")
		}
	}
	c := start(t)
	c.fill(t)
	server := c.serve(t, "operator", "system:masters")
	// The browser's test asks for changes here.
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		percent, _ := strconv.ParseInt(r.FormValue("percent"), 10, 64)
		requests, _ := strconv.ParseInt(r.FormValue("requests"), 10, 64)
		handled, _ := strconv.ParseFloat(r.FormValue("handled"), 64)
		if err := c.shift(r.Context(), percent, requests, handled); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	defer control.Close()
	if hold > 0 {
		t.Logf("serving %s, changed by %s/?percent=20&requests=200&handled=0.3", server.URL(), control.URL)
		ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		select {
		case <-ctx.Done():
		case <-time.After(hold):
		}
		return
	}
	args := []string{"--test", "--test-reporter=spec", "page.test.mjs"}
	if to := os.Getenv("PAGE_PICTURES"); to != "" {
		if !filepath.IsAbs(to) {
			to = filepath.Join("..", "..", to)
		}
		args = []string{"pictures.mjs", to}
	}
	node := exec.CommandContext(t.Context(), "node", args...) //nolint:gosec // whoever runs the test names the folder
	node.Dir, node.Env = dir, append(os.Environ(), "PAGE="+server.URL(), "CONTROL="+control.URL)
	out, err := node.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("the browser's tests: %v", err)
	}
}

// serve serves the page of namespace shop with the rights of a user.
func (c *cluster) serve(t *testing.T, user string, groups ...string) *page.Server {
	t.Helper()
	r := fleet.Must[*reader.Reader](t)(reader.New(readOnly(t, c.As(user, groups...)), fleet.System))
	s := fleet.Must[*page.Server](t)(page.New(t.Context(), page.Options{Reader: r, Namespace: fleet.Shop, Cluster: "test", Now: time.Now}))
	done := make(chan error, 1)
	go func() { done <- s.Serve(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	return s
}
