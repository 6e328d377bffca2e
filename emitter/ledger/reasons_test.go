// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every constant must be in DroppedReasons, because the metric starts from that list.
func TestDroppedReasonsAreComplete(t *testing.T) {
	files, err := filepath.Glob("../../api/v1alpha1/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	look := func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Dropped") || len(spec.Values) != 1 {
			return true
		}
		lit, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		found++
		if reason, err := strconv.Unquote(lit.Value); err != nil || !slices.Contains(DroppedReasons(), reason) {
			t.Errorf("%s is not in DroppedReasons (%v)", spec.Names[0].Name, err)
		}
		return true
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, look)
	}
	if found != len(DroppedReasons()) {
		t.Errorf("%d constants, %d in the list", found, len(DroppedReasons()))
	}
}
