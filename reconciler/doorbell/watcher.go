// SPDX-License-Identifier: Apache-2.0

package doorbell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	// metadataOnly has the API server send only the metadata of objects, and metadataList those of a list.
	metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	metadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	// listAtOnce is how many objects a page of a list has.
	listAtOnce = 100
	// A watch lasts between shortestWatch and twice that, so that not all end at the same time.
	shortestWatch = 5 * time.Minute
	// listWithin limits one page, and answersWithin how long a watch may last longer than the API server was asked for.
	listWithin    = time.Minute
	answersWithin = 30 * time.Second
	// lastRetry is the longest delay after a failure.
	lastRetry = 30 * time.Second
)

// watcher lists and watches one kind.
type watcher struct {
	*Watch
	api  *client
	ring func(context.Context, Key, Change) error
	// moved is called with the resourceVersion up to which everything is noted.
	moved func(version string)
	// absentFor is how long to wait when the kind is not installed, or may not be read.
	absentFor time.Duration
	// pageSize is how many objects are listed at once.
	pageSize int
	// startWithin limits how long the API server may take to begin a watch.
	startWithin time.Duration
	log         *slog.Logger

	// position is the resourceVersion up to which everything is noted; empty: nothing is.
	position string
	listNext bool

	lists, restarts atomic.Uint64
	watching        atomic.Bool
}

// run watches until the context ends.
func (w *watcher) run(ctx context.Context) {
	w.listNext = w.See != nil
	said, failures := "", 0
	for ctx.Err() == nil {
		began := time.Now()
		err := w.once(ctx)
		w.watching.Store(false)
		if ctx.Err() != nil {
			return
		}
		w.restarts.Add(1)
		if time.Since(began) > lastRetry {
			failures = 0
		}
		wait := time.Duration(0)
		switch code := codeOf(err); {
		case err == nil:
			said = ""
			if time.Since(began) < time.Second {
				failures++
				wait = backoff(failures, lastRetry)
			}
		case code == http.StatusGone:
			w.log.Info("The API server no longer has all changes, so everything is listed", "resource", w.Kind, "from", w.position)
			w.listNext = true
			failures++
			wait = backoff(failures, lastRetry)
		case code == http.StatusNotFound || code == http.StatusForbidden:
			if text := err.Error(); text != said {
				said = text
				w.log.Warn("A kind cannot be watched, and is tried again; this is normal if it is not installed",
					"resource", w.Kind, "every", w.absentFor.String(), "error", err)
			}
			w.listNext = true
			wait = w.absentFor
		default:
			failures++
			w.log.Warn("A watch was interrupted, and is resumed", "resource", w.Kind, "error", err)
			// An answer of another kind may be about the resourceVersion.
			w.listNext = w.listNext || code/100 == 4 && code != http.StatusUnauthorized && code != http.StatusTooManyRequests
			wait = max(backoff(failures, lastRetry), retryAfter(err))
		}
		if wait > 0 {
			_ = sleep(ctx, wait) // the loop ends with the context
		}
	}
}

// once watches for some minutes. Before that, it lists, if that is necessary.
func (w *watcher) once(ctx context.Context) error {
	if !w.listNext && w.position != "" {
		behind, err := w.behind(ctx)
		if err != nil {
			return err
		}
		w.listNext = behind
	}
	if w.listNext || w.position == "" {
		if err := w.list(ctx); err != nil {
			return fmt.Errorf("listing: %w", err)
		}
		w.listNext = false
	}
	if err := w.watch(ctx); err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	return nil
}

// behind reports whether the API server has not come as far as it had before: a backup of etcd was restored. It would
// accept a watch from there, and then say nothing of what happens until then.
func (w *watcher) behind(ctx context.Context) (bool, error) {
	p, err := w.page(ctx, url.Values{"limit": {"1"}}, func(*Object) {})
	if err != nil {
		return false, fmt.Errorf("reading the latest resourceVersion: %w", err)
	}
	return newer(w.position, p.Metadata.ResourceVersion), nil
}

// list rings what is newer than the position. A list does not show what was deleted: for that, the sweep is rung.
func (w *watcher) list(ctx context.Context) error {
	w.lists.Add(1)
	if w.Listing != nil {
		w.Listing()
	}
	query := url.Values{"limit": {strconv.Itoa(w.pageSize)}}
	first, from := "", w.position
	for {
		var rings []Key
		p, err := w.page(ctx, query, func(o *Object) {
			if w.See != nil {
				w.See(Added, o)
			}
			if w.Swept || !newer(o.Metadata.ResourceVersion, from) {
				return
			}
			if key, rung := w.key(Added, o); rung {
				rings = append(rings, key)
			}
		})
		if err != nil && (codeOf(err) != http.StatusGone || p.Metadata.Continue == "") {
			return err
		}
		if first == "" {
			first = p.Metadata.ResourceVersion
			if from != "" && newer(from, first) {
				w.log.Warn("The API server has gone back in time, so everything is rung", "resource", w.Kind, "from", from, "to", first)
				from, first = "", ""
				continue
			}
		}
		for _, key := range rings {
			if err := w.ring(ctx, key, Updated); err != nil {
				return err
			}
		}
		// If the rest of the list is no longer available, the API server continues with a later one. What changed on
		// the earlier pages since then comes with the watch, which begins at the first.
		if query = (url.Values{"limit": query["limit"], "continue": {p.Metadata.Continue}}); p.Metadata.Continue == "" {
			break
		}
	}
	if w.Key != nil {
		if err := w.ring(ctx, Sweep, Updated); err != nil {
			return err
		}
	}
	w.move(first)
	return nil
}

func (w *watcher) key(c Change, o *Object) (Key, bool) {
	if w.Key == nil {
		return Key{}, false
	}
	return w.Key(c, o)
}

func (w *watcher) move(version string) {
	w.position = version
	w.moved(version)
}

// listMeta is what is read of a list, or of an error, which may say where to continue.
type listMeta struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
}

// page reads one page of a list.
func (w *watcher) page(ctx context.Context, query url.Values, each func(*Object)) (listMeta, error) {
	ctx, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	body, err := w.get(ctx, query, metadataList)
	if err != nil {
		var p listMeta
		if status := (*StatusError)(nil); errors.As(err, &status) {
			_ = json.Unmarshal([]byte(status.Message), &p) // if it says nothing, there is nothing to continue
		}
		return p, err
	}
	defer body.Close() //nolint:errcheck // everything is read
	return decodePage(body, each)
}

// decodePage decodes a list object by object, because all of them at once take several times as much memory.
func decodePage(r io.Reader, each func(*Object)) (p listMeta, err error) {
	d := json.NewDecoder(r)
	read := func() error {
		if err := expect(d, json.Delim('{')); err != nil {
			return err
		}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return err
			}
			switch name {
			case "metadata":
				err = d.Decode(&p.Metadata)
			case "items":
				err = decodeItems(d, each)
			default:
				var ignored json.RawMessage
				err = d.Decode(&ignored)
			}
			if err != nil {
				return err
			}
		}
		return expect(d, json.Delim('}'))
	}
	if err := read(); err != nil {
		return p, fmt.Errorf("decoding a list: %w", err)
	}
	if p.Metadata.ResourceVersion == "" {
		return p, errors.New("decoding a list: it has no resourceVersion")
	}
	return p, nil
}

// decodeItems decodes the objects of a list, or null if there are none.
func decodeItems(d *json.Decoder, each func(*Object)) error {
	begin, err := d.Token()
	if err != nil || begin == nil {
		return err
	}
	if begin != json.Delim('[') {
		return fmt.Errorf("its items are %v; an array was expected", begin)
	}
	for d.More() {
		var o Object
		if err := d.Decode(&o); err != nil {
			return err
		}
		each(&o)
	}
	return expect(d, json.Delim(']'))
}

func expect(d *json.Decoder, want json.Delim) error {
	got, err := d.Token()
	if err == nil && got != want {
		err = fmt.Errorf("it has %v where %v was expected", got, want)
	}
	return err
}

// errLate says that a watch has not even begun.
var errLate = errors.New("the API server does not begin to answer")

// watch notes changes until the watch ends, which it does after some minutes.
func (w *watcher) watch(ctx context.Context) error {
	last := shortestWatch + rand.N(shortestWatch) //nolint:gosec // it only spreads load
	ctx, cancel := context.WithTimeout(ctx, last+answersWithin)
	defer cancel()
	ctx, expire := context.WithCancelCause(ctx)
	defer expire(nil)
	late := time.AfterFunc(w.startWithin, func() { expire(errLate) })
	body, err := w.get(ctx, url.Values{
		"watch": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {w.position},
		"timeoutSeconds": {strconv.Itoa(int(last.Seconds()))},
	}, metadataOnly)
	if !late.Stop() && err != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	if err != nil {
		return err
	}
	defer body.Close() //nolint:errcheck // only read
	w.watching.Store(true)
	d := json.NewDecoder(body)
	for {
		var e event
		switch err := d.Decode(&e); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading an event: %w", err)
		}
		if err := w.note(ctx, &e); err != nil {
			return err
		}
	}
}

// event is an event of a watch.
type event struct {
	Type   string `json:"type"`
	Object struct {
		Object
		// Code and Message are those of an error.
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"object"`
}

// changes are the types of events that are about an object.
var changes = map[string]Change{"ADDED": Added, "MODIFIED": Updated, "DELETED": Deleted}

// note has what an event is about rung, and then moves the position.
func (w *watcher) note(ctx context.Context, e *event) error {
	if e.Type == "ERROR" {
		return &StatusError{Code: e.Object.Code, Message: e.Object.Message}
	}
	o := &e.Object.Object
	if change, ok := changes[e.Type]; ok {
		if w.See != nil {
			w.See(change, o)
		}
		if key, rung := w.key(change, o); rung {
			if key.Name != o.Metadata.Name || key.Kind != w.Kind {
				change = Updated // of what the ring names, a part has changed
			}
			if err := w.ring(ctx, key, change); err != nil {
				return err
			}
		}
	}
	if o.Metadata.ResourceVersion == "" {
		return fmt.Errorf("an event of type %s has no resourceVersion", e.Type)
	}
	w.move(o.Metadata.ResourceVersion)
	return nil
}

// get requests objects.
func (w *watcher) get(ctx context.Context, query url.Values, accept string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.api.URL+w.path(w.Namespace)+"?"+query.Encode(), nil)
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	r.Header.Set("Accept", accept)
	response, err := w.api.do(r)
	if err != nil {
		return nil, err
	}
	if wrong := statusOf(response, time.Now()); wrong != nil {
		_ = response.Body.Close() // the code says enough
		return nil, wrong
	}
	return response.Body, nil
}

// newer reports whether resourceVersion a is newer than b. Those that cannot be compared count as newer.
func newer(a, b string) bool {
	x, err := strconv.ParseUint(a, 10, 64)
	y, other := strconv.ParseUint(b, 10, 64)
	return err != nil || other != nil || x > y
}

// sleep waits, and returns an error if the context ends before.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
