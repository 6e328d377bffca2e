// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/cdevents/sdk-go/pkg/api"
	v04 "github.com/cdevents/sdk-go/pkg/api/v04"
	v05 "github.com/cdevents/sdk-go/pkg/api/v05"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// The schemas are those of the specification. They are compiled here with formats asserted: the
// SDK's own check accepts "not a uri" as a URI.
var schemas = sync.OnceValues(func() (*jsonschema.Compiler, error) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for id, text := range api.SchemasById {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			return nil, err
		}
		if err := c.AddResource(id, doc); err != nil {
			return nil, err
		}
	}
	return c, nil
})

var fullVersion = map[string]string{Version05: v05.SpecVersion, Version04: v04.SpecVersion}

// schemaOf compiles the schema of an event type.
func schemaOf(version, typ string) (*jsonschema.Schema, error) {
	id := "https://cdevents.dev/" + fullVersion[version] + "/schema/custom"
	if parts := strings.Split(typ, "."); parts[1] == "cdevents" {
		id = "https://cdevents.dev/" + fullVersion[version] + "/schema/" + parts[2] + "-" + parts[3] + "-event"
	}
	c, err := schemas()
	if err != nil {
		return nil, err
	}
	return c.Compile(id)
}

// conforms checks the data of an event against the specification's schema.
func conforms(version string, e event.Event) error {
	s, err := schemaOf(version, e.Type())
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(e.Data()))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

func parse(version string, data []byte) (api.CDEventV04, error) {
	if version == Version04 {
		return v04.NewFromJsonBytes(data)
	}
	return v05.NewFromJsonBytes(data)
}

func TestEveryEventConformsToTheSchema(t *testing.T) {
	each(t, func(t *testing.T, version string, tr lifecycle.Transition) {
		if err := conforms(version, render(t, profile(version), tr)); err != nil {
			t.Error(err)
		}
	})
}

// The schema test is only worth something if it can fail.
func TestSchemasAreAsserted(t *testing.T) {
	for name, spoil := range map[string]func(string) string{
		"source is not a URI": func(s string) string { return strings.Replace(s, "https://eu-1.", `https://eu 1.`, 1) },
		"time is invalid":     func(s string) string { return strings.Replace(s, "2026-11-21T", "2026-13-21T", 1) },
		"tags are null":       func(s string) string { return strings.Replace(s, `"tags":{}`, `"tags":null`, 1) },
		"unknown field":       func(s string) string { return strings.Replace(s, `"subject":{`, `"subject":{"url":"x",`, 1) },
		"no artifact":         func(s string) string { return strings.Replace(s, `"artifactId":"pkg`, `"artifact":"pkg`, 1) },
		"an empty artifact":   func(s string) string { return strings.Replace(s, `"artifactId":"pkg`, `"artifactId":"","x":"pkg`, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			e := render(t, profile(Version05), transitionOf(t, lifecycle.Deployed))
			spoiled := spoil(string(e.Data()))
			if spoiled == string(e.Data()) {
				t.Fatal("the data is unchanged")
			}
			e.DataEncoded = []byte(spoiled)
			if conforms(Version05, e) == nil {
				t.Error("invalid data passed")
			}
		})
	}
}

// What a receiver with the SDK does, such as Flux: parse, then validate. For these types the SDK is
// right; where it is lenient, the schema test is not.
func TestSDKReadsEveryEvent(t *testing.T) {
	each(t, func(t *testing.T, version string, tr lifecycle.Transition) {
		e := render(t, profile(version), tr)
		read, err := parse(version, e.Data())
		if err != nil {
			t.Fatal(err)
		}
		if err := api.Validate(read); err != nil {
			t.Error(err)
		}
		if read.GetVersion() != fullVersion[version] {
			t.Errorf("version %s, want %s", read.GetVersion(), fullVersion[version])
		}
		if read.GetId() != e.ID() || read.GetSource() != e.Source() || read.GetSubjectId() != e.Subject() {
			t.Errorf("id, source or subject was lost: %s", e.Data())
		}
		if !read.GetTimestamp().Equal(tr.Time) {
			t.Errorf("timestamp %s, want %s", read.GetTimestamp(), tr.Time)
		}
		if len(read.GetLinks()) == 0 && len(tr.Links) > 0 {
			t.Error("the links were lost")
		}
		// A receiver that reads and writes the event must lose nothing.
		again, err := api.AsJsonBytes(read)
		if err != nil {
			t.Fatal(err)
		}
		if want, got := normal(t, e.Data()), normal(t, again); want != got {
			t.Errorf("the SDK changed the event:\nsent %s\nread %s", want, got)
		}
	})
}

// normal returns JSON with sorted keys.
func normal(t *testing.T, data []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
