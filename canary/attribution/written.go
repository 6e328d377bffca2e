// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// maxSnapshotBytes limits the unpacked size of a Snapshot.
const maxSnapshotBytes = 16 << 20

// errKey says that a key has too many or too few parts.
var errKey = errors.New("want a figure, an entity type, an outcome, a shard and a bound")

var errColumn = errors.New("what was counted has a column that does not go with its keys")

// encodedSnapshot is the JSON form of a Snapshot. JSON keys are strings and most pods share them, so the keys
// appear once and each pod's numbers are a column. 100 pods with 512 shards take a third of the bytes.
type encodedSnapshot struct {
	At        time.Time                        `json:"at"`
	Epoch     string                           `json:"epoch"`
	Revisions map[types.UID]map[string]float64 `json:"revisions"`
	Pods      map[types.UID]raw                `json:"pods"`
	Keys      []string                         `json:"keys,omitempty"`
	Columns   map[types.UID]columns            `json:"columns,omitempty"`
	Shards    []ShardKey                       `json:"shards,omitempty"`
	// Values is the form in which the previous release wrote the columns.
	Values map[types.UID]map[string]map[string]float64 `json:"values,omitempty"`
}

type columns struct {
	App   column `json:"app,omitzero"`
	Entry column `json:"entry,omitzero"`
}

// column holds values for some of the keys. Steps are the distances between their positions, starting
// one before the first.
type column struct {
	Steps  []int     `json:"s,omitempty"`
	Values []float64 `json:"v,omitempty"`
}

func columnOf(values map[string]float64, at map[string]int) column {
	keys := slices.SortedFunc(maps.Keys(values), func(a, b string) int { return cmp.Compare(at[a], at[b]) })
	c, last := column{}, -1
	for _, k := range keys {
		c.Steps, c.Values = append(c.Steps, at[k]-last), append(c.Values, values[k])
		last = at[k]
	}
	return c
}

// named returns the column with its keys.
func (c column) named(keys []string) (map[string]float64, error) {
	out, at := make(map[string]float64, len(c.Values)), -1
	if len(c.Steps) != len(c.Values) {
		return nil, errColumn
	}
	for i, step := range c.Steps {
		if at += step; step < 1 || at >= len(keys) {
			return nil, errColumn
		}
		out[keys[at]] = c.Values[i]
	}
	return out, nil
}

// MarshalJSON implements json.Marshaler. The result compresses well; its storage compresses it.
func (s Snapshot) MarshalJSON() ([]byte, error) {
	w := encodedSnapshot{
		At: s.At, Epoch: s.epoch, Pods: s.pods, Revisions: map[types.UID]map[string]float64{},
		Columns: map[types.UID]columns{},
	}
	for uid, t := range s.revisions {
		w.Revisions[uid] = named(t.values())
	}
	app, entry, at := map[types.UID]map[string]float64{}, map[types.UID]map[string]float64{}, map[string]int{}
	for uid, p := range s.pods {
		app[uid], entry[uid] = named(p.App.Values), named(p.Entry.Values)
		for _, values := range []map[string]float64{app[uid], entry[uid]} {
			for k := range values {
				at[k] = 0
			}
		}
	}
	w.Keys = slices.Sorted(maps.Keys(at))
	for i, k := range w.Keys {
		at[k] = i
	}
	for uid := range s.pods {
		w.Columns[uid] = columns{App: columnOf(app[uid], at), Entry: columnOf(entry[uid], at)}
	}
	for k := range s.shards {
		w.Shards = append(w.Shards, k)
	}
	content, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("writing down what was counted: %w", err)
	}
	return content, nil
}

// uncompressed returns the JSON object of a Snapshot. Earlier releases compressed it and stored it as a
// base64 string.
func uncompressed(content []byte) ([]byte, error) {
	if !bytes.HasPrefix(content, []byte(`"`)) {
		return content, nil
	}
	var packed []byte
	if err := json.Unmarshal(content, &packed); err != nil {
		return nil, fmt.Errorf("what was counted is no base64: %w", err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("what was counted is not compressed: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(z, maxSnapshotBytes))
	if err != nil {
		return nil, fmt.Errorf("decompressing what was counted: %w", err)
	}
	return plain, nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Snapshot) UnmarshalJSON(content []byte) error {
	content, err := uncompressed(content)
	if err != nil {
		return err
	}
	var w encodedSnapshot
	if err := json.Unmarshal(content, &w); err != nil {
		return fmt.Errorf("reading what was counted: %w", err)
	}
	*s = Snapshot{At: w.At, epoch: w.Epoch, pods: w.Pods, revisions: map[types.UID]Tally{}}
	for uid, values := range w.Revisions {
		t := newTally()
		keys, err := keyed(values)
		if err != nil {
			return err
		}
		t.restore(keys)
		s.revisions[uid] = *t
	}
	for uid, p := range s.pods {
		app, entry := w.Values[uid]["app"], w.Values[uid]["entry"]
		if c, ok := w.Columns[uid]; ok {
			if app, err = c.App.named(w.Keys); err != nil {
				return err
			}
			if entry, err = c.Entry.named(w.Keys); err != nil {
				return err
			}
		}
		if p.App.Values, err = keyed(app); err != nil {
			return err
		}
		if p.Entry.Values, err = keyed(entry); err != nil {
			return err
		}
		s.pods[uid] = p
	}
	if w.Shards != nil {
		s.shards = map[ShardKey]bool{}
		for _, k := range w.Shards {
			s.shards[k] = true
		}
	}
	return nil
}

// Figures for the parts of a Tally that have no series.
const (
	cutFigure      mapping.Figure = "cut"
	lostFigure     mapping.Figure = "lost"
	restartsFigure mapping.Figure = "restarts"
)

// values is the inverse of Tally.add.
func (t *Tally) values() map[mapping.Key]float64 {
	out := map[mapping.Key]float64{
		{Figure: mapping.Started}: t.Started, {Figure: mapping.DurationSum}: t.DurationSum,
		{Figure: mapping.EntryServing}:     t.Forwarded,
		{Figure: mapping.EntryDurationSum}: t.EntryDurationSum, {Figure: cutFigure}: t.Cut, {Figure: lostFigure}: t.Lost,
	}
	for outcome, n := range t.Finished {
		out[mapping.Key{Figure: mapping.Finished, Outcome: outcome}] = n
	}
	for revision, n := range t.EnteredAt {
		out[mapping.Key{Figure: mapping.EnteredAt, Outcome: revision}] = n
	}
	for bound, n := range t.Buckets {
		out[mapping.Key{Figure: mapping.Duration, Bound: bound}] = n
	}
	for code, n := range t.Entered {
		out[mapping.Key{Figure: mapping.EntryHTTP, Outcome: code}] = n
	}
	for bound, n := range t.EntryBuckets {
		out[mapping.Key{Figure: mapping.EntryDuration, Bound: bound}] = n
	}
	for reason, n := range t.Restarts {
		out[mapping.Key{Figure: restartsFigure, Outcome: reason}] = n
	}
	for k, s := range t.Shards {
		key := mapping.Key{Figure: mapping.ShardFinished, Entity: k.Entity, Shard: k.Shard}
		for outcome, n := range map[string]float64{
			mapping.OK: s.OK, mapping.Error: s.Error, mapping.Timeout: s.Timeout,
			mapping.Unknown: s.Unknown,
		} {
			key.Outcome = outcome
			out[key] = n
		}
		out[mapping.Key{Figure: mapping.ShardSlow, Entity: k.Entity, Shard: k.Shard}] = s.Slow
	}
	return out
}

func (t *Tally) restore(values map[mapping.Key]float64) {
	t.add(values)
	for k, v := range values {
		switch k.Figure {
		case cutFigure:
			t.Cut = v
		case lostFigure:
			t.Lost = v
		case restartsFigure:
			plus(&t.Restarts, k.Outcome, v)
		}
	}
}

// named writes keys as text and leaves out zeros.
func named(values map[mapping.Key]float64) map[string]float64 {
	out := make(map[string]float64, len(values))
	for k, v := range values {
		if v != 0 || k.Bound != 0 {
			// strings only, cannot fail
			text, _ := json.Marshal([]string{
				string(k.Figure), k.Entity, k.Outcome, k.Shard,
				strconv.FormatFloat(k.Bound, 'g', -1, 64),
			})
			out[string(text)] = v
		}
	}
	return out
}

func keyed(values map[string]float64) (map[mapping.Key]float64, error) {
	out := make(map[mapping.Key]float64, len(values))
	for text, v := range values {
		var parts []string
		if err := json.Unmarshal([]byte(text), &parts); err != nil || len(parts) != 5 {
			return nil, fmt.Errorf("what was counted has a key %q: %w", text, cmp.Or(err, errKey))
		}
		bound, err := strconv.ParseFloat(parts[4], 64)
		if err != nil {
			return nil, fmt.Errorf("what was counted has a key %q: %w", text, err)
		}
		out[mapping.Key{
			Figure: mapping.Figure(parts[0]), Entity: parts[1], Outcome: parts[2], Shard: parts[3],
			Bound: bound,
		}] = v
	}
	return out, nil
}
