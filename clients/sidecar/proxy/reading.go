// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/knative-cdevents/knative-cdevents/clients/sidecar/key"
)

const (
	// freeRead is how much of each body may be read besides Options.MostRead: a client that sends less never waits.
	freeRead = 4 << 10
	// readWithin is how long a client may take to send what is read for its key, and again to send what memory was given
	// for. Nothing else ends this in queue-proxy, whose time-out leaves a handler alone that still reads.
	readWithin = 10 * time.Second
)

var errMemory = errors.New("too many events in structured mode are read at once; send them in binary mode")

// reading is a body while a key is looked for in it.
type reading struct {
	io.ReadCloser
	begin func()
	take  func() error
	// read is how much was read, and most how much may be before take.
	read, most int
}

// Read implements io.Reader.
func (b *reading) Read(to []byte) (int, error) {
	if b.begin != nil {
		b.begin()
		b.begin = nil
	}
	if b.read == b.most {
		if err := b.take(); err != nil {
			return 0, err
		}
		b.most = key.MaxEvent + 1
	}
	n, err := b.ReadCloser.Read(to[:min(len(to), b.most-b.read)])
	b.read += n
	return n, err //nolint:wrapcheck // a reader's contract
}

// find returns the key of a request. If it was in the body, the body is in memory until it was sent on, or until the
// caller calls done.
func (p *Proxy) find(w http.ResponseWriter, r *http.Request) (found string, done func(), err error) {
	body, taken := r.Body, int64(0)
	if body == nil || body == http.NoBody {
		found, err = p.o.Key(r)
		return found, func() {}, err
	}
	control := http.NewResponseController(w)
	seen := &reading{ReadCloser: body, most: freeRead}
	limit := func() { _ = control.SetReadDeadline(time.Now().Add(readWithin)) }
	seen.begin = limit
	seen.take = func() error {
		ctx, cancel := context.WithTimeout(r.Context(), p.o.Patience)
		defer cancel()
		need := int64(key.MaxEvent)
		if r.ContentLength >= 0 {
			need = min(need, r.ContentLength)
		}
		_ = control.SetReadDeadline(time.Time{}) // the wait is not the client's
		if p.memory.Acquire(ctx, need) != nil {
			return errMemory
		}
		taken = need
		limit()
		return nil
	}
	r.Body = seen
	found, err = p.o.Key(r)
	if r.Body == seen {
		r.Body = body
	}
	if seen.begin == nil && !errors.Is(err, os.ErrDeadlineExceeded) { // otherwise, the server must not wait for the rest
		_ = control.SetReadDeadline(time.Time{})
	}
	if taken == 0 {
		return found, func() {}, err
	}
	if n := int64(seen.read); n < taken {
		p.memory.Release(taken - n)
		taken = n
	}
	done = sync.OnceFunc(func() { p.memory.Release(taken) })
	r.Body = &passing{r.Body, body, done}
	return found, done, err
}

// passing is a body that is in memory until it was read.
type passing struct {
	io.Reader
	io.Closer
	done func()
}

// Read implements io.Reader.
func (b *passing) Read(to []byte) (int, error) {
	n, err := b.Reader.Read(to)
	if errors.Is(err, io.EOF) {
		b.Reader = http.NoBody
		b.done()
	}
	return n, err //nolint:wrapcheck // a reader's contract
}
