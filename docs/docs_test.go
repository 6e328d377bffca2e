// SPDX-License-Identifier: Apache-2.0

// Package docs contains no code. Its tests read the documents of the whole repository as GitHub shows them: links lead
// somewhere, commands name what exists, and pages can be read in one sitting.
package docs

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
	"golang.org/x/net/html"
)

// home is where readers find the repository: absolute links that begin with it must lead somewhere, too.
var home = regexp.MustCompile(`^https://github\.com/knative-cdevents/knative-cdevents/(?:blob|tree|raw)/main/`)

// page is a document.
type page struct {
	links    []string
	anchors  map[string]bool
	commands string
	// manifests are its blocks of YAML.
	manifests []string
	text      string
	words     int
	// generated means that a program writes it, as a comment in it says.
	generated bool
}

// pages returns every document of the repository, by its path below the root.
func pages(t *testing.T) map[string]page {
	t.Helper()
	out := map[string]page{}
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		built := []string{".git", ".cache", "bin", "node_modules", "release", "target"}
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(built, d.Name()):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		source, err := fs.ReadFile(root, path)
		if err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		out[path] = read(t, source)
		return nil
	})
	if err != nil || len(out) < 30 {
		t.Fatalf("found %d documents: %v", len(out), err)
	}
	return out
}

// read collects what a document links to, what links can lead to, and the commands that it tells the reader to run.
func read(t *testing.T, source []byte) page {
	t.Helper()
	p := page{
		anchors: map[string]bool{}, text: string(source), words: len(strings.Fields(string(source))),
		generated: strings.Contains(string(source), " Do not edit. -->\n"),
	}
	doc := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			p.anchor(words(n, source))
		case *ast.Link:
			p.links = append(p.links, string(n.Destination))
		case *ast.Image:
			p.links = append(p.links, string(n.Destination))
		case *ast.AutoLink:
			if n.AutoLinkType == ast.AutoLinkURL {
				p.links = append(p.links, string(n.URL(source)))
			}
		case *ast.HTMLBlock:
			p.markup(string(n.Lines().Value(source)))
		case *ast.RawHTML:
			p.markup(string(n.Segments.Value(source)))
		case *ast.FencedCodeBlock:
			switch block := string(n.Lines().Value(source)); string(n.Language(source)) {
			case "sh", "shell":
				p.commands += block
			case "yaml":
				p.manifests = append(p.manifests, block)
			case "":
				// A session shows commands with what they print.
				for line := range strings.Lines(block) {
					if command, is := strings.CutPrefix(line, "$ "); is {
						p.commands += command
					}
				}
			}
		case *ast.CodeSpan:
			p.commands += strings.ReplaceAll(words(n, source), "\n", " ") + "\n"
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// anchor adds the anchor that GitHub gives a heading.
func (p *page) anchor(heading string) {
	slug := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
	for name, n := slug, 1; ; n++ {
		if !p.anchors[name] {
			p.anchors[name] = true
			return
		}
		name = slug + "-" + strconv.Itoa(n)
	}
}

// words returns the text of a heading, without its markup.
func words(n ast.Node, source []byte) string {
	var out strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			out.Write(t.Value(source))
		} else {
			out.WriteString(words(c, source))
		}
	}
	return out.String()
}

// markup adds the links and anchors of HTML, such as the pictures for a dark and a light page.
func (p *page) markup(source string) {
	for z := html.NewTokenizer(strings.NewReader(source)); z.Next() != html.ErrorToken; {
		for _, a := range z.Token().Attr {
			switch a.Key {
			case "href", "src", "srcset":
				p.links = append(p.links, a.Val)
			case "id", "name":
				p.anchors[a.Val] = true
			}
		}
	}
}

// Every link to a file of this repository, and to a heading in it, leads there.
func TestLinks(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for from, p := range all {
		for _, link := range p.links {
			u, err := url.Parse(link)
			if err != nil {
				t.Errorf("%s links to %q, which is no URL: %v", from, link, err)
				continue
			}
			to := filepath.Join(filepath.Dir(from), filepath.FromSlash(u.Path))
			if prefix := home.FindString(link); prefix != "" {
				to = strings.TrimPrefix(u.Scheme+"://"+u.Host+u.Path, prefix)
			} else if u.Scheme != "" || u.Host != "" {
				continue
			}
			if u.Path == "" {
				to = from
			}
			if _, err := os.Stat(filepath.Join("..", to)); err != nil {
				t.Errorf("%s links to %q: there is no %s", from, link, to)
			}
			if target, isPage := all[to]; isPage && u.Fragment != "" && !target.anchors[u.Fragment] {
				t.Errorf("%s links to %q: %s has no heading with this anchor", from, link, to)
			}
		}
	}
}

// limit is how many words a page may have, so that it can be read in one sitting; "wc -w" counts the same.
const limit = 2500

// No page is longer than a reader's patience. Generated pages are as long as what they are generated from, and the
// records of the laboratory are not for readers in a hurry.
func TestPagesAreShort(t *testing.T) {
	t.Parallel()
	for path, p := range pages(t) {
		if !strings.HasPrefix(path, "docs/") || strings.HasPrefix(path, "docs/lab/") || p.generated {
			continue
		}
		if p.words > limit {
			t.Errorf("%s has %d words, and may have %d: shorten it, or divide it", path, p.words, limit)
		}
	}
}

// Every page can be found from the page of all documents.
func TestEveryPageIsListed(t *testing.T) {
	t.Parallel()
	all := pages(t)
	const index = "docs/README.md"
	for path := range all {
		link, isDocument := strings.CutPrefix(path, "docs/")
		if isDocument && path != index && !slices.Contains(all[index].links, link) {
			t.Errorf("%s does not link to %s", index, link)
		}
	}
}
