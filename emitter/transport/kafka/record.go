// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

// partitionKey is the extension that CloudEvents' Kafka binding makes the key of a record.
const partitionKey = "partitionkey"

// encode returns the record of an event, always the same. It fails only for an event that will never be accepted.
func encode(ev event.Event, topic string, mode transport.Mode) (*kgo.Record, error) {
	if err := ev.Validate(); err != nil {
		return nil, fmt.Errorf("the event is not a valid CloudEvent: %w", err)
	}
	r := &kgo.Record{Topic: topic, Key: keyOf(ev), Timestamp: ev.Time()}
	if mode == transport.Structured {
		var err error
		if r.Value, err = json.Marshal(ev); err != nil {
			return nil, fmt.Errorf("encoding the event: %w", err)
		}
		r.Headers = []kgo.RecordHeader{header("content-type", event.ApplicationCloudEventsJSON+"; charset=UTF-8")}
		return r, nil
	}
	r.Value = ev.Data()
	all := map[string]string{
		"ce_specversion": ev.SpecVersion(), "ce_id": ev.ID(), "ce_source": ev.Source(), "ce_type": ev.Type(),
		"ce_subject": ev.Subject(), "ce_dataschema": ev.DataSchema(), "content-type": ev.DataContentType(),
	}
	if !ev.Time().IsZero() {
		all["ce_time"] = types.FormatTime(ev.Time())
	}
	for name, value := range ev.Extensions() {
		text, err := types.Format(value)
		if err != nil {
			return nil, fmt.Errorf("encoding the attribute %s of the event: %w", name, err)
		}
		all["ce_"+name] = text
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] != "" {
			r.Headers = append(r.Headers, header(name, all[name]))
		}
	}
	return r, nil
}

func header(name, value string) kgo.RecordHeader {
	return kgo.RecordHeader{Key: name, Value: []byte(value)}
}

// keyOf is the same for all events about one object.
func keyOf(ev event.Event) []byte {
	if key, ok := ev.Extensions()[partitionKey].(string); ok && key != "" {
		return []byte(key)
	}
	return []byte(ev.Subject())
}

// digest identifies a record by its content.
type digest [sha256.Size]byte

func digestOf(r *kgo.Record) digest {
	h := sha256.New()
	part := func(b []byte) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(b)))
		h.Write(size[:])
		h.Write(b)
	}
	part([]byte(r.Topic))
	part(r.Key)
	part(r.Value)
	for _, header := range r.Headers {
		part([]byte(header.Key))
		part(header.Value)
	}
	return digest(h.Sum(nil))
}
