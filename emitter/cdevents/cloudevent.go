// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/cdevents/sdk-go/pkg/api"
	"github.com/cloudevents/sdk-go/v2/event"
)

// cloudEvent wraps a CDEvent as CDEvents' cloudevents-binding.md requires: id, source, type,
// subject and time equal those of the CDEvent, and the data is the whole CDEvent. The SDK's
// AsCloudEvent is not used: it sets no time, and gives every custom event the same invalid type.
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
	// Not SetData: it would send bytes as base64.
	e.SetDataContentType(event.ApplicationJSON)
	e.DataEncoded = data
	if err := e.Validate(); err != nil {
		return event.Event{}, fmt.Errorf("%s is not a valid CloudEvent: %w", f.typ, err)
	}
	return e, nil
}

// encode writes JSON without HTML escapes, so that a package URL with "&" stays readable and
// searchable.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
