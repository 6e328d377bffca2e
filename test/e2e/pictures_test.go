// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// largest is how many bytes a picture may have, because it is committed.
const largest = 150_000

// album takes pictures with a real browser, into the folder that E2E_PICTURES names, or else one that is deleted.
type album struct {
	*watched
	dir string
}

func (w *watched) album() *album {
	w.Helper()
	for _, name := range []string{"chromium", "node", "script"} {
		if _, err := exec.LookPath(name); err != nil {
			w.Skipf("%s is missing; to install it: make deps DEPS=--browser", name)
		}
	}
	for _, module := range []string{"browser", "screenshots"} {
		if _, err := os.Stat(suite.Path("test", module, "node_modules")); err != nil {
			w.Skipf("the modules of test/%s are missing; \"make bad-release\" installs them", module)
		}
	}
	a := &album{watched: w, dir: os.Getenv("E2E_PICTURES")}
	if a.dir == "" {
		a.dir = w.TempDir()
	}
	return a
}

// shot is a picture for test/browser/picture.mjs.
type shot struct {
	URL      string   `json:"url"`
	File     string   `json:"file"`
	Words    []string `json:"words,omitempty"`
	Selector string   `json:"selector,omitempty"`
	Width    int      `json:"width,omitempty"`
	Most     int      `json:"most,omitempty"`
	Press    string   `json:"press,omitempty"`
	Hide     string   `json:"hide,omitempty"`
	// Names are names of this run, with what to show instead.
	Names map[string]string `json:"names"`
}

// take takes a picture of what must show some words.
func (a *album) take(name string, s shot) {
	a.Helper()
	s.File, s.Names = filepath.Join(a.dir, "bad-release-"+name+".png"), map[string]string{a.ns: "shop"}
	said, err := json.Marshal(s)
	a.must(err)
	a.node("browser", s.File, "picture.mjs", string(said))
}

// board takes a picture of a dashboard.
func (a *album) board(name, board string, since time.Time, variables map[string]string) string {
	a.Helper()
	prometheus, err := suite.Prometheus.URL()
	a.must(err)
	file := filepath.Join(a.dir, "bad-release-"+name+".png")
	return a.node("screenshots", file, "live.mjs", prometheus, since.UTC().Format(time.RFC3339), board, compact(variables), file)
}

func (a *album) node(module, file string, args ...string) string {
	a.Helper()
	cmd := exec.CommandContext(a.Context(), "node", args...)
	cmd.Dir = suite.Path("test", module)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		a.Fatalf("taking picture %s: %v\n%s", filepath.Base(file), err, complaints.String())
	}
	info, err := os.Stat(file)
	a.must(err)
	if a.Logf("%s has %d bytes", file, info.Size()); info.Size() > largest {
		a.Errorf("%s has %d bytes, more than %d", file, info.Size(), largest)
	}
	return string(out)
}

// dashboard runs "kubectl cdevents dashboard", and returns its address and what ends it.
func (a *album) dashboard() (address string, stop func()) {
	a.Helper()
	ctx, cancel := context.WithCancel(a.Context())
	cmd := exec.CommandContext(ctx, filepath.Join(a.programs, "kubectl-cdevents"), "dashboard", "-n", a.ns, "--open=false")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	a.must(err)
	a.must(cmd.Start())
	lines := bufio.NewScanner(out)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "http://127.0.0.1:") {
		a.Fatalf("the dashboard said %q (%v)", lines.Text(), lines.Err())
	}
	address = lines.Text()
	return address, func() {
		cancel()
		_ = cmd.Wait() // it was interrupted
	}
}

// said is a command of a person, and what a terminal showed.
type said struct{ command, screen string }

const columns = "108"

// types runs commands in a terminal, with $NS and $NAME.
func (a *album) types(name string, commands ...string) []said {
	a.Helper()
	var out []said
	for _, c := range commands {
		c = strings.NewReplacer("$NS", a.ns, "$NAME", name).Replace(c)
		screen, err := a.shell(a.Context(), "script -qec 'stty cols "+columns+"; "+c+"' /dev/null", name)
		a.must(err)
		out = append(out, said{c, screen})
	}
	return out
}

var (
	paint  = regexp.MustCompile("\x1b\\[(\\d*)m")
	others = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]|\r")
)

// terminal takes a picture of what a terminal showed, with its colours.
func (a *album) terminal(name string, most int, all []said, words ...string) {
	a.Helper()
	var b strings.Builder
	for _, one := range all {
		text := html.EscapeString(paint.ReplaceAllString(one.screen, "\x00$1\x01"))
		text = strings.NewReplacer("\x000\x01", "</b>", "\x00\x01", "</b>", "\x001\x01", `<b class="bold">`, "\x002\x01", `<b class="dim">`,
			"\x0031\x01", `<b class="bad">`, "\x0032\x01", `<b class="good">`, "\x0033\x01", `<b class="unsure">`).Replace(text)
		fmt.Fprintf(&b, "<i>$ %s</i>\n%s\n\n", html.EscapeString(a.plain(one.command)), strings.TrimSpace(others.ReplaceAllString(a.plain(text), "")))
	}
	a.sheet(name, screenSheet, template.HTML(strings.TrimSpace(b.String())), shot{Words: words, Selector: "pre", Most: most}) //nolint:gosec // it was escaped
}

// plain replaces the name of the test's namespace. What follows in the columns of a table stays where it is.
func (a *album) plain(text string) string {
	const name = "shop"
	inColumn := regexp.MustCompile(regexp.QuoteMeta(a.ns) + `(\S*)(  )`)
	text = inColumn.ReplaceAllString(text, name+"${1}"+strings.Repeat(" ", len(a.ns)-len(name))+"$2")
	return strings.ReplaceAll(text, a.ns, name)
}

// sheet takes a picture of a page made of a template.
func (a *album) sheet(name, text string, data any, s shot) {
	a.Helper()
	file, err := os.Create(filepath.Join(a.TempDir(), name+".html"))
	a.must(err)
	a.must(template.Must(template.New(name).Parse(text)).Execute(file, data))
	a.must(file.Close())
	s.URL = "file://" + file.Name()
	a.take(name, s)
}

const screenSheet = `<!doctype html><meta charset="utf-8"><style>
body { margin: 0 } pre { display: inline-block; margin: 0; padding: 16px 20px; background: #16181d; color: #d7dae0; font: 14px/1.4 "DejaVu Sans Mono", monospace }
i { font-style: normal; color: #8ab4f8 } b { font-weight: normal }
.bold { font-weight: bold; color: #fff } .dim { color: #8b919c } .bad { color: #ff8178 } .good { color: #7fd18c } .unsure { color: #f0c05a }
</style><pre>{{.}}</pre>`

// bar is a span in the picture of a trace.
type bar struct {
	Name, Took, Class string
	Depth             int
	Left, Width       float64
}

// trace takes a picture of a trace. The Collector has no page, so what it received is drawn here.
func (a *album) trace(name, id string, spans []kit.Span, words ...string) {
	a.Helper()
	first, last := spans[0].Start, spans[0].End
	parents := map[string]string{}
	for _, s := range spans {
		parents[s.ID] = s.Parent
		if s.Start.Before(first) {
			first = s.Start
		}
		if s.End.After(last) {
			last = s.End
		}
	}
	whole := last.Sub(first).Seconds()
	var bars []bar
	var below func(parent string, depth int)
	below = func(parent string, depth int) {
		for _, s := range spans {
			// The parent of the first span may be the pipeline's.
			if _, known := parents[s.Parent]; s.Parent != parent && (parent != "" || known) {
				continue
			}
			long := s.End.Sub(s.Start)
			b := bar{Name: a.plain(s.Name), Took: brief(long), Depth: depth, Left: 100 * s.Start.Sub(first).Seconds() / whole, Width: max(0.3, 100*long.Seconds()/whole)}
			if s.Failed {
				b.Class = "failed"
			}
			bars = append(bars, b)
			below(s.ID, depth+1)
		}
	}
	below("", 0)
	a.sheet(name, traceSheet, map[string]any{"ID": id, "Bars": bars, "Took": brief(last.Sub(first)), "Count": len(spans)}, shot{Words: words, Selector: "main", Width: 1100})
}

const traceSheet = `<!doctype html><meta charset="utf-8"><style>
body { margin: 0 } main { padding: 16px 20px; font: 14px/1.4 "DejaVu Sans", sans-serif; color: #20242c; background: #fff }
h1 { font-size: 15px; margin: 0 0 10px } small { font-weight: normal; color: #59616e }
.span { display: grid; grid-template-columns: 400px 1fr 70px; align-items: center; gap: 8px; border-top: 1px solid #e4e7ec; padding: 3px 0 }
.lane { position: relative; height: 14px; background: #f4f6f8 } .lane div { position: absolute; top: 0; height: 14px; background: #2f6fd0; border-radius: 2px }
.failed .lane div { background: #c6362c } .failed .name::after { content: " error"; color: #c6362c; font-size: 12px; font-weight: bold } .took { text-align: right; color: #59616e }
</style><main><h1>Trace {{.ID}} <small>{{.Count}} spans, {{.Took}}</small></h1>
{{range .Bars}}<div class="span {{.Class}}"><div class="name" style="padding-left: {{.Depth}}em">{{.Name}}</div><div class="lane"><div style="left: {{.Left}}%; width: {{.Width}}%"></div></div><div class="took">{{.Took}}</div></div>
{{end}}</main>`
