// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// repository is the root of this repository.
var repository = os.DirFS("../..")

// The page has every reason that the code has, and no other. It may differ from the code only until "make generate".
func TestReasonsPage(t *testing.T) {
	t.Parallel()
	want, err := reasons(repository)
	if err != nil {
		t.Fatal(err)
	}
	got, err := fs.ReadFile(repository, reasonsPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s is not what the constants say: run make generate", reasonsPage)
	}
	for line := range strings.Lines(string(got)) {
		cells := strings.Split(line, " | ")
		if len(cells) != 3 || !strings.HasPrefix(line, "| `") {
			continue
		}
		for _, c := range cells[1:] {
			if n := len(strings.Fields(strings.TrimSuffix(c, " |\n"))); n > 15 {
				t.Errorf("%s has %d words in a cell: %s", cells[0], n, c)
			}
		}
	}
}

// judging are the folders of all code that sets a condition of a user's object, or a reason of a verdict.
var judging = []string{
	"api/verdict", "canary/attribution", "canary/cluster", "canary/gaterun", "canary/judge", "cli/advice",
	"emitter/transport/credentials", "reconciler/gate", "reconciler/source",
}

// noReasons are other words that this code has, by what they are.
var noReasons = slices.Concat(
	[]string{"CanaryGate", "CustomRun", "Deployment", "DomainMapping", "Kind", "Route", "Service"},           // kinds
	[]string{"Ready", "True", "Readable", "ClusterTroubled", "PlacementEnforced", "StatefulDeclared"},        // conditions
	[]string{"ClientErrors", "EntryErrors", "ErrorRate", "Query", "SlowRequests", "SlowerAnywhere"},          // metrics
	[]string{"Codes", "Durations", "Entry", "Outcomes", "Queries"},                                           // what a metric reads
	[]string{"Down", "Exiting", "Joining", "Leaving", "Removed", "Up", "WeaklyUp"},                           // states of members
	[]string{"Running", "Pass", "Warn", "Fail", "Inconclusive", "Error", "Superseded"},                       // verdicts
	[]string{"CallsPerRequestUnknown", "NoRequests", "StartedUnknown"},                                       // of metrics only
	[]string{"PlacementPlanMissing", "PlacementUnknown", "ShardsMisplaced"},                                  // of messages only
	[]string{"MayNotRead", "CannotReadNow", "MemberJoining", "MemberUnreachable", "NoMembers", "PodsUnread"}, // of the controller's own objects
	[]string{"Allow", "Authorization", "RunCancelled"},                                                       // of protocols
)

// Every word that could be a reason is the value of a constant that the page lists, or is known to be something else. So a
// reason that is new, or is written in another place than with the others, is found.
func TestEveryReasonIsListed(t *testing.T) {
	t.Parallel()
	all, err := listedReasons(repository)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, found := range all {
		for _, r := range found {
			values = append(values, r.value)
		}
	}
	word := regexp.MustCompile(`^[A-Z][a-z]+([A-Z][A-Za-z]*)?$`)
	seen, others := 0, map[string]bool{}
	err = eachFile(repository, judging, func(path string, f *ast.File) error {
		ast.Inspect(f, func(n ast.Node) bool {
			literal, is := n.(*ast.BasicLit)
			if !is || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil || !word.MatchString(text) {
				return true
			}
			others[text] = true
			if seen++; !slices.Contains(values, text) && !slices.Contains(noReasons, text) {
				t.Errorf("%s has %q, which %s does not list: if it is a reason, make it a constant in a block with %q; "+
					"if it is none, add it to noReasons", path, text, reasonsPage, directive)
			}
			return true
		})
		return nil
	})
	if err != nil || seen < 150 {
		t.Errorf("found only %d words: %v", seen, err)
	}
	for _, text := range noReasons {
		if !others[text] {
			t.Errorf("%q is not in the code any more: remove it from noReasons", text)
		}
	}
}

// A reason that is listed is set somewhere.
func TestEveryListedReasonIsUsed(t *testing.T) {
	t.Parallel()
	all, err := listedReasons(repository)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	err = eachFile(repository, []string{"api", "canary", "cmd", "emitter", "reconciler"}, func(_ string, f *ast.File) error {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec: // not the names that it declares
				for _, v := range n.Values {
					ast.Inspect(v, func(n ast.Node) bool { return use(used, f.Name.Name, n) })
				}
				return false
			default:
				return use(used, f.Name.Name, n)
			}
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range all {
		for _, r := range found {
			if !used[r.name] {
				t.Errorf("nothing sets %s, which %s lists as %s: remove it", r.name, reasonsPage, r.value)
			}
		}
	}
}

// use notes an identifier with its package. It returns whether there may be more below a node.
func use(used map[string]bool, pkg string, n ast.Node) bool {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		if x, is := n.X.(*ast.Ident); is {
			used[x.Name+"."+n.Sel.Name] = true
			return false
		}
	case *ast.Ident:
		used[pkg+"."+n.Name] = true
	}
	return true
}

// What is wrong with a constant is an error that names it.
func TestReasonsThatAreWrong(t *testing.T) {
	t.Parallel()
	for block, says := range map[string]string{
		"//reasons:table A/B\nconst X, Y = \"X\", \"Y\"":                               "one constant a line",
		"//reasons:table A/B\nconst (\n// X: it is so.\nX = 1 + 1\n)":                  "the value of X",
		"//reasons:table A/B\nconst (\n// it is so.\nX = \"X\"\n)":                     "the comment of X",
		"//reasons:table A/B\nconst (\n// X: it is so. Wait. Try again.\nX = \"X\"\n)": "no constant is listed in table CDEventSource/Valid",
	} {
		root := fstest.MapFS{"api/x.go": {Data: []byte("package x\n\n" + block + "\n")}}
		for _, folder := range reasonRoots {
			root[folder+"/doc.go"] = &fstest.MapFile{Data: []byte("package x\n")}
		}
		if _, err := reasons(root); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s\nhas the error %v, not %q", block, err, says)
		}
	}
}

// Pages list what they promise: the values of constants whose names match, in the files of one folder.
func TestOtherPagesListWhatTheCodeHas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		page, folder string
		name         *regexp.Regexp
		least        int
	}{
		{"docs/events.md", "lifecycle", regexp.MustCompile(`^Reason[A-Z]`), 10},
		{"docs/events.md", "lifecycle", regexp.MustCompile(`^(Outage|NotDeployed|FailedRollout|Cluster(Trouble|Split)|Environment(Outage|Degraded|NotCreated))$`), 8},
		{"docs/delivery.md", "api/v1alpha1", regexp.MustCompile(`^Dropped[A-Z]`), 9},
		{"docs/gate-http.md", "reconciler/gate/gatehttp", regexp.MustCompile(`^(NoRun|NewSplit)$`), 2},
		{"docs/gate-queries.md", "canary/gaterun", regexp.MustCompile(`^Query(Unknown|Failed|Unusable|Decreased|Changed)$`), 5},
		{"docs/canary.md", "canary/attribution", regexp.MustCompile(`.`), 13},
	} {
		text, err := fs.ReadFile(repository, c.page)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		err = eachFile(repository, []string{c.folder}, func(_ string, f *ast.File) error {
			for _, d := range f.Decls {
				block, is := d.(*ast.GenDecl)
				if !is || block.Tok != token.CONST {
					continue
				}
				for name, value := range constants(block, c.folder == "canary/attribution") {
					if !c.name.MatchString(name) {
						continue
					}
					if found++; !strings.Contains(string(text), "`"+value+"`") {
						t.Errorf("%s does not list %s, which is %q", c.page, name, value)
					}
				}
			}
			return nil
		})
		if err != nil || found < c.least {
			t.Errorf("found only %d constants in %s for %s: %v", found, c.folder, c.page, err)
		}
	}
}

// constants returns those of a block that are strings; only those of a type Reason, if typed.
func constants(block *ast.GenDecl, typed bool) map[string]string {
	out := map[string]string{}
	for _, s := range block.Specs {
		spec, is := s.(*ast.ValueSpec)
		if !is {
			continue
		}
		if of, is := spec.Type.(*ast.Ident); typed && (!is || of.Name != "Reason") {
			continue
		}
		for i, v := range spec.Values {
			if literal, is := v.(*ast.BasicLit); is && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil {
					out[spec.Names[i].Name] = text
				}
			}
		}
	}
	return out
}
