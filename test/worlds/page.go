// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// The marks around the table in a page of the documentation.
const (
	begins = "<!-- generated: worlds -->"
	ends   = "<!-- end -->"
)

var errMarks = errors.New("the marks of the table are missing")

// write replaces the table in a page.
func write(path, text string) error {
	content, err := os.ReadFile(path) //nolint:gosec // whoever runs this names the page
	if err != nil {
		return fmt.Errorf("reading the page: %w", err)
	}
	page, err := replaced(string(content), text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.WriteFile(path, []byte(page), 0o644); err != nil { //nolint:gosec // documentation is for everybody
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// replaced returns a page with another table.
func replaced(page, text string) (string, error) {
	before, rest, found := strings.Cut(page, begins+"\n")
	_, after, closed := strings.Cut(rest, ends)
	if !found || !closed {
		return "", errMarks
	}
	return before + begins + "\n" + text + ends + after, nil
}
