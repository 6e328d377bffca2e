// SPDX-License-Identifier: Apache-2.0

// Package key finds the key of a request, by a rule such as header:X-User. It knows nothing of the sidecar, so that
// whoever admits a rule reads it as the sidecar does.
package key

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

const (
	// MaxLength is how many bytes a key may have.
	MaxLength = 1024
	// MaxEvent is how large a CloudEvent in structured mode may be whose attribute is the key: it is read before it is
	// sent on.
	MaxEvent = 1 << 20
)

// ErrInvalid says that the key of a request cannot be used.
var ErrInvalid = errors.New("the key of the request is not valid")

// Func finds the key of a request; empty if it has none. It may replace the request's body by what it has read of it.
type Func func(r *http.Request) (string, error)

var (
	token     = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	attribute = regexp.MustCompile(`^[a-z0-9]{1,20}$`)
	escape    = regexp.MustCompile(`\\(.)`)
)

// Parse reads a rule, such as header:X-User.
func Parse(rule string) (Func, error) {
	kind, name, _ := strings.Cut(rule, ":")
	var find func(*http.Request) (string, error)
	var err error
	switch {
	case kind == "header" && token.MatchString(name):
		if Reserved(name) {
			return nil, fmt.Errorf("the key %q is a header that the sidecar sets itself; name one of the client", rule)
		}
		if strings.EqualFold(name, "Host") {
			return nil, fmt.Errorf("the key %q is the host, by which Knative finds the Service; name a header that tells the "+
				"requests of a Service apart", rule)
		}
		find = always(func(r *http.Request) string { return r.Header.Get(name) })
	case kind == "cookie" && token.MatchString(name):
		find = always(func(r *http.Request) string {
			if c, err := r.Cookie(name); err == nil {
				return c.Value
			}
			return ""
		})
	case kind == "query" && name != "":
		find = always(func(r *http.Request) string { return queryOf(r.URL.RawQuery, name) })
	case kind == "path" && name != "":
		find, err = pathRule(name)
	case kind == "event" && attribute.MatchString(name):
		find = func(r *http.Request) (string, error) { return eventAttribute(r, name) }
	default:
		err = fmt.Errorf("the key %q is not a rule; it must be one of header:NAME, cookie:NAME, query:NAME, path:NUMBER, "+
			"path:PATTERN such as path:/carts/{key}, or event:ATTRIBUTE", rule)
	}
	if err != nil {
		return nil, err
	}
	return func(r *http.Request) (string, error) {
		key, err := find(r)
		if err == nil && len(key) > MaxLength {
			err = fmt.Errorf("%w: it has more than %d bytes", ErrInvalid, MaxLength)
		}
		return key, err
	}, nil
}

func always(find func(*http.Request) string) func(*http.Request) (string, error) {
	return func(r *http.Request) (string, error) { return find(r), nil }
}

// queryOf returns the first value of a parameter, without reading the others.
func queryOf(raw, name string) string {
	for part := range strings.SplitSeq(raw, "&") {
		k, v, _ := strings.Cut(part, "=")
		if k, err := url.QueryUnescape(k); err != nil || k != name {
			continue
		}
		if v, err := url.QueryUnescape(v); err == nil {
			return v
		}
	}
	return ""
}

// dots are spellings of a dot in a path.
var dots = strings.NewReplacer("%2e", ".", "%2E", ".")

// clean removes empty segments and those that are . or .. from a path: many applications do so, and a key that only
// they see would have two owners.
func clean(escaped string) string {
	out := path.Clean("/" + dots.Replace(escaped))
	if strings.HasSuffix(escaped, "/") && out != "/" {
		out += "/"
	}
	return out
}

// pathRule is the number of a segment, from 1, or a pattern in which {key} is a segment and * is any other one. A path
// that is longer than a pattern matches it.
func pathRule(rule string) (func(*http.Request) (string, error), error) {
	var pattern []string
	at := -1
	if n, err := strconv.Atoi(rule); err == nil {
		if n < 1 || n > 100 {
			return nil, fmt.Errorf("the key path:%s names no segment; the first one is 1, the last one 100", rule)
		}
		at = n - 1
	} else {
		if !strings.HasPrefix(rule, "/") || strings.Count(rule, "{key}") != 1 {
			return nil, fmt.Errorf("the key path:%s is no pattern; it must begin with / and have {key} once, such as path:/carts/{key}",
				rule)
		}
		pattern = strings.Split(strings.TrimSuffix(rule[1:], "/"), "/")
		for i, p := range pattern {
			if p == "{key}" {
				at = i
			}
			var err error
			if pattern[i], err = url.PathUnescape(p); err != nil {
				return nil, fmt.Errorf("the key path:%s is no pattern: %w", rule, err)
			}
			if p := pattern[i]; p == "" || p == "." || p == ".." {
				return nil, fmt.Errorf("the key path:%s has the segment %q, which does not count in a path, so that none matches; "+
					"remove it, as in path:/carts/{key}", rule, p)
			}
		}
		if at < 0 {
			return nil, fmt.Errorf("the key path:%s has more than {key} in a segment; such as path:/carts/{key} is right", rule)
		}
	}
	return func(r *http.Request) (string, error) {
		segments := strings.SplitN(clean(r.URL.EscapedPath())[1:], "/", 102)
		if len(segments) <= at || len(segments) < len(pattern) {
			return "", nil
		}
		for i, p := range pattern {
			if i != at && p != "*" && p != unescape(segments[i]) {
				return "", nil
			}
		}
		return unescape(segments[at]), nil
	}, nil
}

// unescape returns a segment without escapes, as applications read it.
func unescape(segment string) string {
	plain, _ := url.PathUnescape(segment) // the server has accepted it, so it is valid
	return plain
}

// eventAttribute returns an attribute of a CloudEvent.
func eventAttribute(r *http.Request, name string) (string, error) {
	content := r.Header.Get("Content-Type")
	if len(content) < 28 || !strings.EqualFold(content[:28], "application/cloudevents+json") {
		value := r.Header.Get("Ce-" + name)
		if n := len(value) - 1; n > 0 && value[0] == '"' && value[n] == '"' {
			value = escape.ReplaceAllString(value[1:n], "$1") // CloudEvents' HTTP binding reads it without the quotes
		}
		if plain, err := url.PathUnescape(value); err == nil {
			return plain, nil // it escapes what is not printable
		}
		return value, nil
	}
	if r.Body == nil {
		return "", nil
	}
	var read []byte
	if r.ContentLength <= MaxEvent { // or unknown
		var err error
		if read, err = io.ReadAll(io.LimitReader(r.Body, MaxEvent+1)); err != nil {
			return "", fmt.Errorf("%w: the event could not be read: %w", ErrInvalid, err)
		}
	}
	if max(r.ContentLength, int64(len(read))) > MaxEvent {
		return "", fmt.Errorf("%w: the event has more than %d bytes, and is in structured mode; send it in binary mode",
			ErrInvalid, MaxEvent)
	}
	r.Body = again{bytes.NewReader(read), r.Body}
	return attributeOf(read, name), nil
}

// attributeOf returns an attribute of an event in JSON; empty if it has none, or is not an event, as the application
// will say. It keeps nothing of the rest, of which there may be a lot: a map of it needs 80 times the event's memory.
func attributeOf(event []byte, name string) string {
	if !json.Valid(event) {
		return ""
	}
	decoder := json.NewDecoder(bytes.NewReader(event))
	if begin, _ := decoder.Token(); begin != json.Delim('{') { // it is valid
		return ""
	}
	var value json.RawMessage
	for decoder.More() {
		if is, _ := decoder.Token(); is == name {
			_ = decoder.Decode(&value)
		} else {
			_ = decoder.Decode(&ignored{})
		}
	}
	var text string
	switch {
	case len(value) == 0, value[0] == '{', value[0] == '[', value[0] == 'n': // attributes are no objects, arrays or null
		return ""
	case json.Unmarshal(value, &text) == nil:
		return text
	}
	return string(value) // a number or a boolean
}

// ignored is a JSON value that is not needed.
type ignored struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*ignored) UnmarshalJSON([]byte) error { return nil }

// again is a body that was read.
type again struct {
	io.Reader
	io.Closer
}

// Reserved reports whether a header is one that only the sidecar may set. Some applications take an underscore for a
// hyphen, and some servers of CGI whatever is no letter or digit.
func Reserved(header string) bool {
	const prefix = "stateful"
	if len(header) <= len(prefix) || !strings.EqualFold(header[:len(prefix)], prefix) {
		return false
	}
	c := rune(header[len(prefix)])
	return !unicode.IsLetter(c) && !unicode.IsDigit(c)
}
