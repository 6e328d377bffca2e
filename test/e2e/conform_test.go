// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cdevents/sdk-go/pkg/api"
	"github.com/google/uuid"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Event types, with their versions in CDEvents 0.5.
const (
	created       = "dev.cdeventsx.knative-service.created.0.1.0"
	revisionReady = "dev.cdeventsx.knative-revision.ready.0.1.0"
	shifted       = "dev.cdeventsx.knative-traffic.shifted.0.1.0"
	deployed      = "dev.cdevents.service.deployed.0.3.0"
	published     = "dev.cdevents.service.published.0.3.0"
	upgraded      = "dev.cdevents.service.upgraded.0.3.0"
	rolledBack    = "dev.cdevents.service.rolledback.0.3.0"
	removed       = "dev.cdevents.service.removed.0.3.0"
)

// birth is the initial sequence of events of every Service that is reachable from outside.
var birth = []string{created, revisionReady, deployed, published}

// schemas are the specification's. They assert formats, which the SDK's own check does not.
var schemas = sync.OnceValues(func() (*jsonschema.Compiler, error) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for id, text := range api.SchemasById {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("reading schema %s: %w", id, err)
		}
		if err := c.AddResource(id, doc); err != nil {
			return nil, fmt.Errorf("adding schema %s: %w", id, err)
		}
	}
	return c, nil
})

// conforms checks a received event against the specification: its body against the schema of its type, and its headers
// against the CloudEvents binding.
func conforms(t *testing.T, e event, specVersion string) {
	t.Helper()
	if err := validate(e, specVersion); err != nil {
		t.Errorf("%v\nthe event: %s", err, e)
	}
	c := e.cd.Context
	for header, want := range map[string]string{
		"Ce-Specversion": "1.0",
		"Ce-Id":          c.ID,
		"Ce-Source":      c.Source,
		"Ce-Type":        c.Type,
		"Ce-Subject":     e.cd.Subject.ID,
		"Ce-Time":        c.Timestamp,
		"Content-Type":   "application/json",
	} {
		if got := e.Header.Get(header); got != want || got == "" {
			t.Errorf("header %s is %q, want %q\nthe event: %s", header, got, want, e)
		}
	}
	if e.Method != http.MethodPost {
		t.Errorf("it was sent with %s, want POST", e.Method)
	}
	if _, err := uuid.Parse(c.ID); err != nil {
		t.Errorf("id %q: %v", c.ID, err)
	}
	if source, err := url.Parse(c.Source); err != nil || !source.IsAbs() {
		t.Errorf("source %q is not an absolute URI", c.Source)
	}
	if c.SpecVersion+c.Version != specVersion {
		t.Errorf("its version is %q, want %q", c.SpecVersion+c.Version, specVersion)
	}
	when, err := time.Parse(time.RFC3339Nano, c.Timestamp)
	if err != nil || when.After(e.Time.Add(time.Second)) || e.Time.Sub(when) > 5*time.Minute {
		t.Errorf("time %q is implausible for an arrival at %s: %v", c.Timestamp, e.Time, err)
	}
	// An environment is its own environment.
	located := strings.HasPrefix(c.Type, "dev.cdevents.") && !strings.HasPrefix(c.Type, "dev.cdevents.environment.")
	if env := e.cd.Subject.Content.Environment; located && (env == nil || env.ID == "") {
		t.Errorf("it names no environment\nthe event: %s", e)
	}
}

func validate(e event, specVersion string) error {
	compiler, err := schemas()
	if err != nil {
		return err
	}
	name := "custom"
	if parts := strings.Split(e.cd.Context.Type, "."); len(parts) > 3 && parts[1] == "cdevents" {
		name = parts[2] + "-" + parts[3] + "-event"
	}
	schema, err := compiler.Compile("https://cdevents.dev/" + specVersion + "/schema/" + name)
	if err != nil {
		return fmt.Errorf("there is no schema for it: %w", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(e.Body))
	if err != nil {
		return fmt.Errorf("its body is not JSON: %w", err)
	}
	return schema.Validate(doc)
}
