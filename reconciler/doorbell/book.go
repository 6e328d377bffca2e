// SPDX-License-Identifier: Apache-2.0

package doorbell

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"
)

const (
	// answeredAnnotation of the Lease contains what is answered.
	answeredAnnotation = "knative-cdevents.dev/answered"
	// leases is where the API server serves Leases.
	leases = "/apis/coordination.k8s.io/v1/namespaces/%s/leases"
	// storeWithin limits reading or writing the Lease, lastStoreWithin at the end of the process.
	storeWithin     = 10 * time.Second
	lastStoreWithin = 2 * time.Second
	// lookEvery is how often the book looks whether everything is answered.
	lookEvery = time.Second
)

// positions are resourceVersions by resource.
type positions map[string]string

// account is the content of the annotation.
type account struct {
	// UID is that of the Lease. An account that was copied into another cluster says nothing there.
	UID string `json:"uid"`
	// Positions are the resourceVersions up to which everything is answered. They are facts whoever wrote them, so of
	// two, the newer one counts.
	Positions positions `json:"positions"`
	// LastRing is when a ring was last answered, for people.
	LastRing *time.Time `json:"lastRing,omitempty"`
}

// lease is what is read and written of the Lease.
type lease struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Metadata   struct {
		Name            string            `json:"name,omitempty"`
		UID             string            `json:"uid,omitempty"`
		ResourceVersion string            `json:"resourceVersion,omitempty"`
		Annotations     map[string]string `json:"annotations,omitempty"`
	} `json:"metadata"`
	Spec *hold `json:"spec,omitempty"`
}

// hold says that a doorbell runs, and its core answers. The controller sleeps only while that is so.
type hold struct {
	HolderIdentity       string `json:"holderIdentity"`
	LeaseDurationSeconds int    `json:"leaseDurationSeconds"`
	RenewTime            string `json:"renewTime"`
}

// microTime is the form of times in a Lease.
const microTime = "2006-01-02T15:04:05.000000Z07:00"

// book keeps how far everything is noted, and stores how far everything is answered.
type book struct {
	api             *client
	namespace, name string
	ringer          interface {
		Mark() uint64
		Answered(mark uint64) bool
		LastAnswered() time.Time
		Answers() bool
	}
	// holder is written as the holder of the Lease while the core answers, empty at the end.
	holder string
	// every is the least time between two writes, and half the longest: each renews the Lease.
	every time.Duration
	log   *slog.Logger

	mu     sync.Mutex
	noted  positions
	stored positions
	// reset are the resources of which the API server has gone back in time: what is stored of them is wrong.
	reset map[string]bool

	// checked are the positions that will be answered when everything before mark is.
	checked positions
	mark    uint64
	written time.Time
}

// move notes a position. What was noted before counts as answered only if the ringer says so.
func (b *book) move(resource, version string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if before := b.noted[resource]; before != "" && newer(before, version) {
		b.reset[resource] = true
	}
	b.noted[resource] = version
}

// load reads what earlier processes have stored. Without it, everything is listed and rung.
func (b *book) load(ctx context.Context) (positions, error) {
	_, known, err := b.read(ctx)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noted, b.stored, b.reset = maps.Clone(known), maps.Clone(known), map[string]bool{}
	return known, nil
}

// run stores what is answered until the context ends. Call last after the ringer has ended.
func (b *book) run(ctx context.Context) {
	for failures := 0; ; {
		if sleep(ctx, lookEvery) != nil {
			return
		}
		now := time.Now()
		since := now.Sub(b.written)
		if since < b.every {
			continue
		}
		done := b.look()
		if done == nil && since < 2*b.every {
			continue
		}
		b.written = now
		if err := b.store(ctx, done); err != nil && ctx.Err() == nil {
			failures++
			b.written = now.Add(backoff(failures, lastRetry) - b.every)
			b.log.Warn("What is answered cannot be stored, so after a restart more is rung again than necessary, and what measures "+
				"does not sleep", "lease", b.namespace+"/"+b.name, "error", err)
			continue
		}
		failures = 0
	}
}

// last stores what is answered at the end of the process, and releases the Lease.
func (b *book) last(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastStoreWithin)
	defer cancel()
	b.holder = ""
	if err := b.store(ctx, b.look()); err != nil {
		b.log.Warn("What is answered cannot be stored at the end", "lease", b.namespace+"/"+b.name, "error", err)
	}
}

// look returns the positions that are answered; nil if there are none to store. The positions that it looks at stay the
// same until they are answered: while changes keep coming, there is never a moment at which everything is.
func (b *book) look() positions {
	b.mu.Lock()
	defer b.mu.Unlock()
	// First the positions, then the mark: what they cover is noted before it.
	noted := maps.Clone(b.noted)
	mark := b.ringer.Mark()
	if b.checked == nil || b.ringer.Answered(mark) {
		b.checked, b.mark = noted, mark
	}
	if !b.ringer.Answered(b.mark) {
		return nil
	}
	if maps.Equal(b.checked, b.stored) {
		b.checked = nil
	}
	return b.checked
}

// store writes the positions that are answered, nil for none, and renews the Lease.
func (b *book) store(ctx context.Context, done positions) error {
	b.mu.Lock()
	reset := maps.Clone(b.reset)
	b.mu.Unlock()
	for {
		l, known, err := b.read(ctx)
		if err != nil {
			return err
		}
		if l == nil {
			if err := b.create(ctx); err != nil {
				return err
			}
			continue
		}
		for resource, version := range done {
			if reset[resource] || newer(version, known[resource]) {
				known[resource] = version
			}
		}
		err = b.write(ctx, l, known)
		if codeOf(err) == http.StatusConflict {
			continue // another doorbell has written; together we know more
		}
		if err != nil {
			return err
		}
		if done != nil {
			b.mu.Lock()
			b.stored, b.checked = done, nil
			maps.DeleteFunc(b.reset, func(resource string, _ bool) bool { return reset[resource] })
			b.mu.Unlock()
		}
		return nil
	}
}

// read returns the Lease and what it says; no Lease if there is none.
func (b *book) read(ctx context.Context) (*lease, positions, error) {
	var l lease
	err := b.request(ctx, http.MethodGet, "/"+b.name, nil, &l)
	if codeOf(err) == http.StatusNotFound {
		return nil, positions{}, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading Lease %s/%s: %w", b.namespace, b.name, err)
	}
	var a account
	text := l.Metadata.Annotations[answeredAnnotation]
	if text != "" && json.Unmarshal([]byte(text), &a) != nil {
		b.log.Error("The account in the Lease cannot be read, so everything is rung", "lease", b.namespace+"/"+b.name, "account", text)
	}
	if a.UID != l.Metadata.UID || a.Positions == nil {
		a.Positions = positions{}
	}
	return &l, a.Positions, nil
}

// create creates the Lease, without an account, which needs its UID.
func (b *book) create(ctx context.Context) error {
	l := lease{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
	l.Metadata.Name = b.name
	err := b.request(ctx, http.MethodPost, "", l, nil)
	if err != nil && codeOf(err) != http.StatusConflict {
		return fmt.Errorf("creating Lease %s/%s: %w", b.namespace, b.name, err)
	}
	return nil
}

// write writes an account to the Lease, unless somebody else has written it meanwhile.
func (b *book) write(ctx context.Context, l *lease, known positions) error {
	text, err := json.Marshal(account{l.Metadata.UID, known, b.lastRing()})
	if err != nil {
		return fmt.Errorf("encoding what is answered: %w", err)
	}
	var patch lease
	patch.Metadata.ResourceVersion = l.Metadata.ResourceVersion
	patch.Metadata.Annotations = map[string]string{answeredAnnotation: string(text)}
	holder := b.holder
	if !b.ringer.Answers() {
		holder = ""
	}
	patch.Spec = &hold{holder, int(4 * max(b.every, time.Second).Seconds()), time.Now().UTC().Format(microTime)}
	if err := b.request(ctx, http.MethodPatch, "/"+b.name, patch, nil); err != nil {
		return fmt.Errorf("writing Lease %s/%s: %w", b.namespace, b.name, err)
	}
	return nil
}

func (b *book) lastRing() *time.Time {
	at := b.ringer.LastAnswered().UTC().Truncate(time.Second)
	if at.IsZero() {
		return nil
	}
	return &at
}

// request sends a request about the Lease, and decodes the answer.
func (b *book) request(ctx context.Context, method, name string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return fmt.Errorf("encoding a request: %w", err)
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, b.api.URL+fmt.Sprintf(leases, b.namespace)+name, &content)
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	r.Header.Set("Accept", metadataOnly)
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := b.api.do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // everything is read
	if wrong := statusOf(response, time.Now()); wrong != nil {
		return wrong
	}
	if answer == nil {
		return nil
	}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return fmt.Errorf("decoding the answer: %w", err)
	}
	return nil
}
