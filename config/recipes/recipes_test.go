// SPDX-License-Identifier: Apache-2.0

// Package recipes contains no code. Its tests try the recipes in this folder, which docs/recipes.md describes: they run
// the scripts, send them the events of the golden files, and let the programs that read the objects' conditions judge
// them.
package recipes

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"sigs.k8s.io/yaml"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
	httptransport "github.com/knative-cdevents/knative-cdevents/emitter/transport/http"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source/valid"
)

// documents returns the objects of a recipe, by kind.
func documents(t *testing.T, file string) map[string][]byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, d := range strings.Split(string(content), "\n---\n") {
		var object struct{ Kind string }
		if err := yaml.Unmarshal([]byte(d), &object); err != nil {
			t.Fatal(err)
		}
		out[object.Kind] = []byte(d)
	}
	return out
}

// sourceOf returns the source of a recipe. It must be one that the webhook accepts.
func sourceOf(t *testing.T, file string) *v1alpha1.CDEventSource {
	t.Helper()
	s := &v1alpha1.CDEventSource{}
	if err := yaml.UnmarshalStrict(documents(t, file)["CDEventSource"], s); err != nil {
		t.Fatal(err)
	}
	s.Namespace = "shop"
	if err := valid.Check(s, "knative-cdevents", httptransport.Schemes); err != nil {
		t.Fatal(err)
	}
	return s
}

// golden is an event as it is sent.
type golden struct {
	header textproto.MIMEHeader
	body   []byte
}

func (g golden) kind() string { return g.header.Get("Ce-Type") }

// goldens returns one event of each type, by CDEvents 0.4 or 0.5.
func goldens(t *testing.T, version string) map[string]golden {
	t.Helper()
	files, err := filepath.Glob("../../emitter/cdevents/testdata/*-" + version + ".txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d golden files: %v", len(files), err)
	}
	out := map[string]golden{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(bytes.NewReader(content))
		header, err := textproto.NewReader(r).ReadMIMEHeader()
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(file), "-"+version+".txt")] = golden{header, body}
	}
	return out
}

// start runs the script of a recipe, and returns its address.
func start(t *testing.T, recipe string, env ...string) string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	var scripts struct{ Data map[string]string }
	if err := yaml.Unmarshal(documents(t, recipe+".yaml")["ConfigMap"], &scripts); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), recipe+".py")
	if err := os.WriteFile(file, []byte(scripts.Data[recipe+".py"]), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed at once
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(address)
	ctx, stop := context.WithCancel(context.Background())
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, python, "-u", file)
	cmd.Env = append(append(os.Environ(), "PORT="+port), env...)
	cmd.Stderr, cmd.Stdout = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("%s said: %s", recipe, said.String())
		}
	})
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		if r, err := http.Get("http://" + address); err == nil { //nolint:noctx // bounded by the deadline
			_ = r.Body.Close() // it was not read
			return "http://" + address
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%s does not answer: %s", recipe, said.String())
	return ""
}

// send sends an event in binary or structured mode, and returns the status.
func send(t *testing.T, to string, g golden, structured bool) int {
	t.Helper()
	body := g.body
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	if structured {
		all := map[string]any{"data": json.RawMessage(g.body)}
		for name := range g.header {
			if attribute, is := strings.CutPrefix(name, "Ce-"); is {
				all[strings.ToLower(attribute)] = g.header.Get(name)
			}
		}
		if body, err = json.Marshal(all); err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/cloudevents+json")
	} else {
		maps.Copy(req.Header, http.Header(g.header))
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close() // it was not read
	return r.StatusCode
}

func TestChat(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var texts []string
	status := http.StatusOK
	chat := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var message struct{ Text string }
		mu.Lock()
		defer mu.Unlock()
		if err := json.NewDecoder(r.Body).Decode(&message); err == nil && status == http.StatusOK {
			texts = append(texts, message.Text)
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(chat.Close)
	at := start(t, "chat", "CHAT_URL="+chat.URL+"/hooks/secret")
	for _, version := range []string{"0.5", "0.4"} {
		all := goldens(t, version)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			// An event that arrives again, in another mode, is told once.
			for _, structured := range []bool{false, true} {
				if got := send(t, at, all[name], structured); got != http.StatusAccepted {
					t.Errorf("%s %s: %d", name, version, got)
				}
			}
		}
		mu.Lock()
		if len(texts) != len(all) {
			t.Errorf("%s: %d texts of %d events", version, len(texts), len(all))
		}
		said := strings.Join(texts, "\n")
		for _, want := range []string{
			"shop/cart was rolled back from cart-00002 to cart-00001 in production", "shop/cart was upgraded to cart-0000",
			"Incident in production: Knative Service", "The incident of ", " is over", "The gate said ",
		} {
			if !strings.Contains(said, want) {
				t.Errorf("%s: no text has %q:\n%s", version, want, said)
			}
		}
		texts = nil
		mu.Unlock()
	}

	// If the chat does not accept a text, the event is sent again.
	mu.Lock()
	status = http.StatusTooManyRequests
	mu.Unlock()
	one := goldens(t, "0.5")["serviceupgraded"]
	one.header.Set("Ce-Id", "another")
	if got := send(t, at, one, false); got != http.StatusTooManyRequests {
		t.Errorf("a busy chat: %d", got)
	}
	mu.Lock()
	status = http.StatusOK
	mu.Unlock()
	if got := send(t, at, one, false); got != http.StatusAccepted || len(texts) != 1 {
		t.Errorf("the second attempt: %d, %q", got, texts)
	}
	one.body = []byte("hello")
	if got := send(t, at, one, false); got != http.StatusBadRequest {
		t.Errorf("no event: %d", got)
	}
}

// The chat is told what went wrong, and what gates say, by both versions of the specification.
func TestChatIsToldFewEvents(t *testing.T) {
	t.Parallel()
	filter, err := route.Compile(sourceOf(t, "chat.yaml").Spec.Filters)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"0.5", "0.4"} {
		var passed []string
		for name, g := range goldens(t, version) {
			e := event.New()
			e.SetType(g.kind())
			e.SetSource(g.header.Get("Ce-Source"))
			e.SetID(g.header.Get("Ce-Id"))
			if ok, err := filter.Passes(e); err != nil {
				t.Errorf("%s: %v", name, err)
			} else if ok {
				passed = append(passed, strings.Join(strings.Split(g.kind(), ".")[2:4], "."))
			}
		}
		slices.Sort(passed)
		if got := slices.Compact(passed); !slices.Equal(got, []string{"incident.detected", "incident.resolved", "service.rolledback", "testcaserun.finished"}) {
			t.Errorf("%s: %q", version, got)
		}
	}
}

func TestArchive(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "events.db")
	at := start(t, "archive", "DATABASE="+file)
	all := goldens(t, "0.5")
	for range 2 {
		for name, g := range all {
			for _, structured := range []bool{false, true} {
				if got := send(t, at, g, structured); got != http.StatusAccepted {
					t.Errorf("%s: %d", name, got)
				}
			}
		}
	}
	wrong := all["serviceupgraded"]
	wrong.body = []byte("{")
	if got := send(t, at, wrong, false); got != http.StatusBadRequest {
		t.Errorf("no JSON: %d", got)
	}
	page, err := os.ReadFile("../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, query, found := strings.Cut(string(page), "```sql\n")
	query, _, _ = strings.Cut(query, "```")
	if !found {
		t.Fatal("docs/recipes.md has no query")
	}
	ids := map[string]bool{}
	for _, g := range all {
		ids[g.header.Get("Ce-Id")] = true
	}
	for sql, want := range map[string]string{
		"SELECT count(*) FROM events": fmt.Sprintf("[(%d,)]", len(ids)),
		query:                         "[('shop/cart', '2026-11-21', 1, 1)]",
	} {
		out, err := exec.CommandContext(t.Context(), "python3", "-c", "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchall())", file, sql).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s: %s, want %s (%v)", sql, got, want, err)
		}
	}
	sourceOf(t, "archive.yaml")
}
