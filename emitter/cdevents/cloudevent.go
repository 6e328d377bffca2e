package cdevents

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/cdevents/sdk-go/pkg/api"
	"github.com/cloudevents/sdk-go/v2/event"
)

// cloudEvent wraps a CDEvent as cloudevents-binding.md of CDEvents demands: id,
// source, type, subject and time equal those of the CDEvent, and the data is
// the CDEvent as a whole. The SDK's AsCloudEvent is not used: it sets no time,
// and gives every custom event the same invalid type.
func cloudEvent(f facts, cdevent api.CDEventReader, extensions map[string]string) (event.Event, error) {
	data, err := encode(cdevent)
	if err != nil {
		return event.Event{}, fmt.Errorf("writing %s as JSON: %w", f.typ, err)
	}
	e := event.New(event.CloudEventsVersionV1)
	e.SetID(f.id)
	e.SetSource(f.source)
	e.SetType(f.typ.String())
	e.SetSubject(f.subject)
	e.SetTime(f.time)
	for name, value := range extensions {
		e.SetExtension(name, value)
	}
	// Not SetData: it takes bytes for something to be sent as base64.
	e.SetDataContentType(event.ApplicationJSON)
	e.DataEncoded = data
	if err := e.Validate(); err != nil {
		return event.Event{}, fmt.Errorf("%s is not a valid CloudEvent: %w", f.typ, err)
	}
	return e, nil
}

// encode writes JSON without the escapes that are meant for HTML pages, so that
// a package URL with "&" can be read, and searched for, as it is.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
