// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/clients/sidecar/key"
)

// TestSample runs the sample, which is not written in Go, on a real PostgreSQL. What it was told survives the move of a
// shard, and a pod that has lost a shard cannot overwrite what the next one has written.
func TestSample(t *testing.T) {
	for program, install := range map[string]string{"node": "apt-get install nodejs", "postgres": "apt-get install postgresql"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed: %s", program, install)
		}
	}
	if _, err := os.Stat("sample/node_modules"); err != nil {
		t.Skip("the library of the sample is not installed: npm ci --prefix clients/sidecar/sample")
	}
	database := startPostgres(t)
	f := newFleet(t)
	f.configure = func(c *Config) {
		var err error
		if c.Key, err = key.Parse("path:/carts/{key}"); err != nil {
			t.Fatal(err)
		}
	}
	a, b := f.startSample("stable", database), f.startSample("canary", database)
	f.together(2)
	f.enforce(func(int) *pod { return a })
	for n := range 3 {
		for cart := range 20 {
			entry := []*pod{a, b}[(n+cart)%2]
			resp, body := f.do(entry, http.MethodPost, fmt.Sprintf("/carts/cart-%d", cart), "", `{"item": "book", "quantity": 2}`)
			if want := fmt.Sprintf(`{"book":%d}`, 2*(n+1)); resp.StatusCode != http.StatusOK || body != want || resp.Header.Get("X-Handled-By") != a.name {
				t.Fatalf("%d %s by %s, want %s", resp.StatusCode, body, resp.Header.Get("X-Handled-By"), want)
			}
		}
	}
	old := f.epochOf(a, "cart-7")

	f.enforce(func(int) *pod { return b })
	for cart := range 20 {
		f.until("the shard has moved", func() bool {
			resp, body := f.do(a, http.MethodGet, fmt.Sprintf("/carts/cart-%d", cart), "", "")
			if resp.StatusCode != http.StatusOK || body != `{"book":6}` {
				t.Fatalf("%d %s", resp.StatusCode, body)
			}
			return resp.Header.Get("X-Handled-By") == b.name
		})
	}
	if resp, body := f.do(a, http.MethodPost, "/carts/cart-7", "", `{"item": "pen", "quantity": 1}`); resp.StatusCode != http.StatusOK || body != `{"book":6,"pen":1}` {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}

	// What the former owner still does, as if it had been suspended in the middle of a request.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, strings.Replace(a.entry, "8480", "8080", 1)+"/carts/cart-7",
		bytes.NewReader([]byte(`{"item": "book", "quantity": 100}`)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Stateful-Epoch", old)
	req.Header.Set("Stateful-Shard", "7")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the former owner wrote: %d", resp.StatusCode)
	}
	if _, body := f.do(b, http.MethodGet, "/carts/cart-7", "", ""); body != `{"book":6,"pen":1}` {
		t.Error(body)
	}
}

// epochOf returns the epoch that a member has for the shard of a cart.
func (f *fleet) epochOf(p *pod, cart string) string {
	f.Helper()
	_, version := p.member.Locate(p.config.Placement.ShardOf(cart, p.config.Placement.Shards))
	return fmt.Sprint(version)
}

// startSample runs a pod whose container is the sample.
func (f *fleet) startSample(revision, database string) *pod {
	f.Helper()
	host := newHost()
	name := fmt.Sprintf("%s.%d", revision, len(f.pods))
	c := exec.CommandContext(f.Context(), "node", "sample/cart.mjs")
	c.Env = append(os.Environ(), "ADDRESS="+host, "PORT=8080", "HOSTNAME="+name, "DATABASE_URL="+database)
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	if err := c.Start(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _, _ = c.Process.Kill(), c.Wait() })
	return f.startAt(name, host)
}

// startPostgres runs a database until the test ends, and returns its URL. It listens at a socket in a folder of its own.
func startPostgres(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pg-") // shorter than a folder of the test: the path of a socket has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	// PostgreSQL refuses to run as root.
	as := &syscall.SysProcAttr{}
	if os.Geteuid() == 0 {
		const nobody = 65534
		as.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "data")
	server := sibling(t, "postgres")
	initialize := exec.CommandContext(t.Context(), sibling(t, "initdb"), "-D", data, "-U", "cart", "-A", "trust", "--no-sync")
	initialize.SysProcAttr, initialize.Dir = as, dir
	if out, err := initialize.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := exec.CommandContext(t.Context(), server, "-D", data, "-k", dir, "-c", "listen_addresses=", "-F")
	c.SysProcAttr, c.Dir = as, dir
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Process.Signal(syscall.SIGQUIT), c.Wait() })
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", filepath.Join(dir, ".s.PGSQL.5432"))
		if err == nil {
			_ = conn.Close()
			return "postgres://cart@/postgres?host=" + dir
		}
		if time.Now().After(deadline) {
			t.Fatal("PostgreSQL does not start: ", err)
		}
	}
}

// sibling returns a program of PostgreSQL; Debian has most of them outside of the path, beside the server.
func sibling(t *testing.T, name string) string {
	t.Helper()
	server, err := exec.LookPath("postgres")
	if err == nil {
		server, err = filepath.EvalSymlinks(server)
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(filepath.Dir(server), name)
}
