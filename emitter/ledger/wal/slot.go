// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Kind is the spec.kind of the slots: CDEventSubjects with the newest states of others.
const Kind = "Log"

// Label is a label that the slots have, and no other CDEventSubject.
const Label = "knative-cdevents.dev/log"

const prefix = "log-"

// maxUnpacked bounds what an edited slot can cost. What an append writes must be below it, or it could not be read again: the ledger keeps
// a state below a megabyte.
const maxUnpacked = (maxBatch + maxCarried) << 20

// maxStates bounds it, too: a state takes at least a kilobyte of memory, however small it is compressed. The UIDs of 16,384 alone are more
// than maxCarry.
const maxStates = 1 << 14

// gzips are *gzip.Writer, each of which takes several hundred kilobytes.
var gzips sync.Pool

// slot is what this process knows of one slot.
type slot struct {
	uid     types.UID
	version string
	// position is that of the content that was folded, 0 for none, nowhere if somebody has edited it.
	position int64
	records  []record
}

// record is a state that a slot holds.
type record struct {
	name     string
	revision int64
}

// content is what is written to a slot.
type content struct {
	position int64
	attempt  string
	// states are the new ones, fresh of them, and then those that are carried.
	states []*v1alpha1.CDEventSubject
	fresh  int
}

// header is the first line of a slot's content.
type header struct {
	Attempt string `json:"attempt"`
}

func slotName(number int) string { return fmt.Sprintf("%s%03d", prefix, number) }

// slotNumber is the inverse of slotName.
func slotNumber(name string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimPrefix(name, prefix))
	return n, err == nil && n >= 0 && slotName(n) == name
}

// object is a slot as it is written: gzip (RFC 1952) of JSON Lines, first the header, then a CDEventSubject in each line.
func (c content) object(number int, s slot) (*v1alpha1.CDEventSubject, error) {
	name := slotName(number)
	out := &v1alpha1.CDEventSubject{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: s.uid, ResourceVersion: s.version, Labels: map[string]string{Label: "true"}},
		Spec: v1alpha1.CDEventSubjectSpec{
			APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: Kind, Name: strings.TrimPrefix(name, prefix), UID: types.UID(name),
		},
		Status: v1alpha1.CDEventSubjectStatus{Sequence: c.position},
	}
	if c.position == 0 {
		return out, nil
	}
	var packed bytes.Buffer
	w, pooled := gzips.Get().(*gzip.Writer)
	if pooled {
		w.Reset(&packed)
	} else {
		var err error
		if w, err = gzip.NewWriterLevel(&packed, gzip.BestSpeed); err != nil {
			return nil, fmt.Errorf("preparing to compress: %w", err)
		}
	}
	defer gzips.Put(w)
	lines := json.NewEncoder(w)
	if err := lines.Encode(header{Attempt: c.attempt}); err != nil {
		return nil, fmt.Errorf("encoding the header: %w", err)
	}
	for i, s := range c.states {
		if err := lines.Encode(line(s, i >= c.fresh)); err != nil {
			return nil, fmt.Errorf("encoding CDEventSubject %s: %w", s.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compressing: %w", err)
	}
	out.Status.Compressed = packed.Bytes()
	return out, nil
}

// line is a state without what belongs to its checkpoint. One that is carried keeps the resourceVersion of its commit. That of a new one
// is the slot's.
func line(s *v1alpha1.CDEventSubject, carried bool) *v1alpha1.CDEventSubject {
	out := *s
	out.TypeMeta = metav1.TypeMeta{}
	out.ObjectMeta = metav1.ObjectMeta{Name: s.Name, UID: s.UID, CreationTimestamp: s.CreationTimestamp}
	if carried {
		out.ResourceVersion = s.ResourceVersion
	}
	return &out
}

// isSlot reports whether a CDEventSubject is a slot of the log.
func isSlot(o *v1alpha1.CDEventSubject) bool {
	return o.Spec.Kind == Kind && o.Spec.APIVersion == v1alpha1.SchemeGroupVersion.String()
}

// contentOf reads a slot. The states have the resourceVersions of their commits.
func contentOf(o *v1alpha1.CDEventSubject) (content, error) {
	c := content{position: o.Status.Sequence}
	if c.position == 0 && len(o.Status.Compressed) == 0 {
		return c, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(o.Status.Compressed))
	if err != nil {
		return c, fmt.Errorf("decompressing CDEventSubject %s: %w", o.Name, err)
	}
	lines := json.NewDecoder(io.LimitReader(r, maxUnpacked))
	var first header
	if err := lines.Decode(&first); err != nil {
		return c, fmt.Errorf("reading CDEventSubject %s: %w", o.Name, err)
	}
	c.attempt = first.Attempt
	for lines.More() {
		s := &v1alpha1.CDEventSubject{}
		if err := lines.Decode(s); err != nil {
			return c, fmt.Errorf("reading CDEventSubject %s: %w", o.Name, err)
		}
		if len(c.states) == maxStates {
			return c, fmt.Errorf("reading CDEventSubject %s: it has more than %d states", o.Name, maxStates)
		}
		if _, ok := slotNumber(s.Name); ok || isSlot(s) {
			return c, fmt.Errorf("reading CDEventSubject %s: it has a state of a slot, %s", o.Name, s.Name)
		}
		s = plausible(s)
		if s.Namespace = o.Namespace; s.ResourceVersion == "" {
			s.ResourceVersion = o.ResourceVersion
		}
		c.states = append(c.states, s)
	}
	return c, nil
}

func (c content) records() []record {
	out := make([]record, len(c.states))
	for i, s := range c.states {
		out[i] = record{name: s.Name, revision: s.Status.Revision}
	}
	return out
}
