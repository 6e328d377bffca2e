// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// What an object is remembered by, and its history, are most of a CDEventSubject, and the API server would decode and validate
// each field of them at each write. They are therefore stored compressed, and cached as they are stored: gzip (RFC 1952) of JSON Lines,
// first the memory, then each transition of the history.

// maxUnpacked is far more than both may have. It bounds what an edited entry can cost.
const maxUnpacked = 16 << 20

// gzips are *gzip.Writer, each of which takes several hundred kilobytes; gunzips are *gzip.Reader.
var gzips, gunzips sync.Pool

// Packed returns a CDEventSubject as it is stored and cached: the same one, or a copy that shares everything but the memory and the
// history. Earlier builds stored both as they are.
func Packed(s *v1alpha1.CDEventSubject) *v1alpha1.CDEventSubject {
	if s == nil || s.Status.Memory == nil && len(s.Status.History) == 0 {
		return s
	}
	var memory bytes.Buffer
	if s.Status.Memory != nil && len(s.Status.Memory.Raw) > 0 {
		if err := json.Compact(&memory, s.Status.Memory.Raw); err != nil { // a line has no line break
			return s // whoever decodes it reports that
		}
	}
	lines, err := historyOf(s.Status.History)
	if err != nil {
		return s // it was read from JSON
	}
	packed, err := pack(memory.Bytes(), lines)
	if err != nil {
		return s // it was in memory
	}
	out := *s
	out.Status.Compressed, out.Status.Memory, out.Status.History = packed, nil, nil
	return &out
}

// Lean returns a CDEventSubject as it is cached: packed, and without what is never read.
func Lean(s *v1alpha1.CDEventSubject) *v1alpha1.CDEventSubject {
	if s == nil {
		return nil
	}
	out := *Packed(s)
	out.ManagedFields = nil // they are never read
	join(&out)
	return &out
}

// pack compresses a memory, which is one line of JSON, and a history.
func pack(memory []byte, past history) ([]byte, error) {
	var lines, out bytes.Buffer
	lines.Write(memory)
	lines.WriteByte('\n')
	for _, line := range past {
		lines.Write(line)
		lines.WriteByte('\n')
	}
	w, pooled := gzips.Get().(*gzip.Writer)
	if pooled {
		w.Reset(&out)
	} else {
		var err error
		if w, err = gzip.NewWriterLevel(&out, gzip.BestSpeed); err != nil {
			return nil, fmt.Errorf("preparing to compress: %w", err)
		}
	}
	defer gzips.Put(w)
	if _, err := w.Write(lines.Bytes()); err != nil {
		return nil, fmt.Errorf("compressing: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compressing the end: %w", err)
	}
	return bytes.Clone(out.Bytes()), nil
}

// Unpacked returns a CDEventSubject with its memory and its history: the same one, or a copy that shares everything else. What cannot be
// read, as after a downgrade, stays as it is.
func Unpacked(s *v1alpha1.CDEventSubject) *v1alpha1.CDEventSubject {
	c := contentsOf(s)
	out := c.withMemory(s)
	if past, err := c.past(); err == nil && len(past) > 0 {
		out.Status.History = past
	}
	return out
}

// MemoryOf returns the memory of a CDEventSubject as JSON, nil if it has none. One that cannot be decompressed is not JSON, so that whoever
// decodes it reports that.
func MemoryOf(s *v1alpha1.CDEventSubject) []byte {
	if s = contentsOf(s).withMemory(s); s.Status.Memory == nil {
		return nil
	}
	return s.Status.Memory.Raw
}

// contents is what a CDEventSubject has compressed: its memory and its history.
type contents struct {
	memory  []byte
	history history
	err     error
}

func contentsOf(s *v1alpha1.CDEventSubject) contents {
	if s == nil || len(s.Status.Compressed) == 0 {
		return contents{}
	}
	lines, err := gunzip(s.Status.Compressed)
	if err != nil {
		return contents{err: fmt.Errorf("reading status.compressed: %w", err)}
	}
	memory, rest, _ := bytes.Cut(lines, []byte{'\n'})
	c := contents{memory: slices.Clip(memory)}
	for line := range bytes.Lines(rest) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			c.history = append(c.history, line)
		}
	}
	return c
}

// withMemory returns a CDEventSubject with its memory only. A memory that cannot be decompressed is not JSON, so that whoever decodes it
// reports that.
func (c contents) withMemory(s *v1alpha1.CDEventSubject) *v1alpha1.CDEventSubject {
	if s == nil || len(s.Status.Compressed) == 0 {
		return s
	}
	out, memory := *s, c.memory
	if c.err != nil {
		memory = s.Status.Compressed
	} else {
		out.Status.Compressed = nil
	}
	if len(memory) > 0 {
		out.Status.Memory = &runtime.RawExtension{Raw: memory}
	}
	return &out
}

// complete returns an error if a CDEventSubject has transitions, and no memory: somebody has edited it. The object would be taken for one
// that is seen for the first time, and its transitions would get numbers that are acknowledged already.
func complete(s *v1alpha1.CDEventSubject) error {
	if s == nil || s.Status.Sequence == 0 || s.Status.Memory != nil && len(s.Status.Memory.Raw) > 0 {
		return nil
	}
	return fmt.Errorf("CDEventSubject %s has %d transitions, but nothing in status.compressed; %s", s.Name, s.Status.Sequence, untilRepaired)
}

// untilRepaired says what follows from an edit that cannot be undone here, and what to do.
const untilRepaired = "no events about this object are sent until you restore the CDEventSubject, or annotate it with " +
	v1alpha1.ForgetAnnotation + "=true, so that the object is announced anew"

// past decodes the history.
func (c contents) past() ([]v1alpha1.PastTransition, error) {
	if c.err != nil {
		return nil, c.err
	}
	return c.history.decode()
}

func gunzip(packed []byte) ([]byte, error) {
	from := bytes.NewReader(packed)
	r, pooled := gunzips.Get().(*gzip.Reader)
	if !pooled {
		r = new(gzip.Reader)
	}
	defer gunzips.Put(r)
	if err := r.Reset(from); err != nil {
		return nil, fmt.Errorf("decompressing: %w", err)
	}
	out, err := io.ReadAll(io.LimitReader(r, maxUnpacked+1))
	if err != nil {
		return nil, fmt.Errorf("decompressing: %w", err)
	}
	if len(out) > maxUnpacked {
		return nil, fmt.Errorf("decompressing: it is larger than %d bytes", maxUnpacked)
	}
	return out, nil
}
