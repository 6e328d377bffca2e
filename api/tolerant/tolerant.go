// SPDX-License-Identifier: Apache-2.0

// Package tolerant decodes JSON objects that have unreadable parts.
//
// Its invariant: it drops as little as possible of what it cannot read, and reports the path;
// everything else decodes as with encoding/json. So one object that was never validated does not
// block the others.
package tolerant

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
)

// FieldError reports a part of an object that could not be read.
type FieldError struct {
	// Path of the field, as in "spec.filters[0].exact".
	Path string
	// Message continues after the path, as in "must be an object, not a number".
	Message string
}

func (p FieldError) Error() string { return p.Path + " " + p.Message }

const (
	// maxDepth bounds the search for errors: the object's author chooses its depth, and each level
	// is decoded once more.
	maxDepth = 16
	// maxProblems bounds the reported errors. Each affected field has at least one.
	maxProblems = 16
)

// Unmarshal decodes an object into a pointer to a struct. It fails only if the text is not a JSON
// object; it drops and returns parts that it cannot read.
func Unmarshal(raw []byte, into any) ([]FieldError, error) {
	err := kjson.UnmarshalCaseSensitivePreserveInts(raw, into)
	if err == nil {
		return nil, nil
	}
	var tree map[string]any
	if kjson.UnmarshalCaseSensitivePreserveInts(raw, &tree) != nil || tree == nil {
		return nil, err //nolint:wrapcheck // the caller's own text
	}
	m := &mender{target: reflect.TypeOf(into).Elem()}
	mended, _ := m.mend(nil, tree)
	readable, encodeErr := json.Marshal(mended)
	if encodeErr != nil {
		return nil, fmt.Errorf("encoding the readable fields: %w", encodeErr)
	}
	reflect.ValueOf(into).Elem().SetZero()
	if again := kjson.UnmarshalCaseSensitivePreserveInts(readable, into); again != nil {
		return nil, err //nolint:wrapcheck // the caller's own text
	}
	return m.problems, nil
}

// step leads from an object to one of its fields, or from a list to one of its items.
type step struct {
	key   string
	index int
	item  bool
}

type mender struct {
	target   reflect.Type
	problems []FieldError
	// fields holds the fields that have problems.
	fields []string
}

// mend returns the readable part of a value, or false if there is none.
func (m *mender) mend(path []step, value any) (any, bool) {
	err := m.read(path, value)
	if err == nil {
		return value, true
	}
	if len(path) < maxDepth && len(m.problems) < maxProblems {
		switch v := value.(type) {
		case map[string]any:
			if m.read(path, map[string]any{}) == nil {
				out := make(map[string]any, len(v))
				for _, key := range slices.Sorted(maps.Keys(v)) {
					if kept, ok := m.mend(append(slices.Clone(path), step{key: key}), v[key]); ok {
						out[key] = kept
					}
				}
				if err = m.read(path, out); err == nil {
					return out, true
				}
			}
		case []any:
			if m.read(path, []any{}) == nil {
				out := make([]any, 0, len(v))
				for i := range v {
					if kept, ok := m.mend(append(slices.Clone(path), step{index: i, item: true}), v[i]); ok {
						out = append(out, kept)
					}
				}
				if err = m.read(path, out); err == nil {
					return out, true
				}
			}
		}
	}
	m.note(path, value, err)
	return nil, false
}

func (m *mender) note(path []step, value any, err error) {
	field := fieldOf(path)
	problem := FieldError{Path: text(path), Message: explain(value, err)}
	if len(m.problems) < maxProblems {
		m.problems, m.fields = append(m.problems, problem), append(m.fields, field)
		return
	}
	if slices.Contains(m.fields, field) {
		return
	}
	// Report every incomplete field: a selector that lacks a part selects more.
	for i := range slices.Backward(m.fields) {
		if slices.Index(m.fields, m.fields[i]) < i {
			m.problems[i], m.fields[i] = problem, field
			return
		}
	}
}

// fieldOf returns the field of the object, or of its spec, that a path leads into.
func fieldOf(path []step) string {
	n := 0
	for n < min(len(path), 2) && !path[n].item {
		n++
	}
	return text(path[:n])
}

// read decodes an object that has only this value, in its place.
func (m *mender) read(path []step, value any) error {
	for _, s := range slices.Backward(path) {
		if s.item {
			value = []any{value}
		} else {
			value = map[string]any{s.key: value}
		}
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding a part of the object: %w", err)
	}
	return json.Unmarshal(raw, reflect.New(m.target).Interface()) //nolint:wrapcheck // explain puts it in words
}

func text(path []step) string {
	var b strings.Builder
	for _, s := range path {
		switch {
		case s.item:
			fmt.Fprintf(&b, "[%d]", s.index)
		case b.Len() > 0:
			b.WriteString("." + s.key)
		default:
			b.WriteString(s.key)
		}
	}
	return b.String()
}

// explain says what is wrong with a value, without the value: it may be a secret.
func explain(value any, err error) string {
	var uri *url.Error
	if errors.As(err, &uri) {
		return fmt.Sprintf("is not a valid URI: %v", uri.Err)
	}
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) || wrong.Type == nil {
		return "cannot be read: " + err.Error()
	}
	want := "an object"
	switch wrong.Type.Kind() { //nolint:exhaustive // the rest are objects
	case reflect.String:
		want = "a string"
	case reflect.Bool:
		want = "true or false"
	case reflect.Float32, reflect.Float64:
		want = "a number"
	case reflect.Slice, reflect.Array:
		want = "a list"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8,
		reflect.Uint16, reflect.Uint32, reflect.Uint64:
		want = "a whole number of " + fmt.Sprint(wrong.Type.Bits()) + " bits"
	}
	is := "an object"
	switch value.(type) {
	case string:
		is = "a string"
	case bool:
		is = "true or false"
	case int64, float64:
		is = "this number"
	case []any:
		is = "a list"
	}
	return "must be " + want + ", not " + is
}
