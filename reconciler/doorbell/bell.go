// SPDX-License-Identifier: Apache-2.0

package doorbell

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Types of rings: those of ApiServerSource in mode Reference, and that of PingSource. The core accepts rings of both.
const (
	refType  = "dev.knative.apiserver.ref."
	pingType = "dev.knative.sources.ping"
)

// bell is the core's.
type bell struct {
	core *client
	// source is the CloudEvents source: the address of the API server, as ApiServerSource has it.
	source string
	within time.Duration
}

// reference is the body of a ring: of Kubernetes' ObjectReference, what ApiServerSource fills in.
type reference struct {
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
}

// ring rings once.
func (b *bell) ring(ctx context.Context, key Key, change Change) result {
	ctx, cancel := context.WithTimeout(ctx, b.within)
	defer cancel()
	r, err := b.request(ctx, key, change, time.Now())
	if err != nil {
		return result{kind: failed, err: err}
	}
	response, err := b.core.do(r)
	if err != nil {
		return result{kind: failed, err: err}
	}
	defer response.Body.Close() //nolint:errcheck // the answer has arrived
	if wrong := statusOf(response, time.Now()); wrong != nil {
		return result{kind: classOf(wrong.Code), after: wrong.RetryAfter, err: wrong}
	}
	_, _ = io.CopyN(io.Discard, response.Body, mostMessage) // so that the connection can be used again
	return result{kind: answered}
}

// classOf says what follows from an answer other than 2xx. Most 4xx say that the core will never answer this key. Some
// may come from what is in front of it, or pass: 404 while a route to it is being made, 408, 409, 421, 425 and 429.
func classOf(code int) resultKind {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return unauthorized
	case http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusMisdirectedRequest,
		http.StatusTooEarly, http.StatusTooManyRequests:
		return failed
	}
	if code/100 == 4 {
		return refused
	}
	return failed
}

// request makes the CloudEvent of a ring, in binary mode.
func (b *bell) request(ctx context.Context, key Key, change Change, now time.Time) (*http.Request, error) {
	attributes := map[string]string{
		"specversion": "1.0", "id": rand.Text(), "source": b.source, "time": now.UTC().Format(time.RFC3339Nano),
		"type": pingType,
	}
	body := []byte("{}")
	if key != Sweep {
		var err error
		body, err = json.Marshal(reference{key.Kind.Kind, key.Namespace, key.Name, key.APIVersion})
		if err != nil {
			return nil, fmt.Errorf("making the body of a ring: %w", err)
		}
		attributes["type"] = refType + string(change)
		// As ApiServerSource has it, for objects without a namespace, too.
		attributes["subject"] = "/apis/" + key.APIVersion + "/namespaces/" + key.Namespace + "/" + key.Resource + "/" + key.Name
		attributes["apiversion"], attributes["kind"] = key.APIVersion, key.Kind.Kind
		attributes["name"], attributes["namespace"] = key.Name, key.Namespace
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.core.URL, strings.NewReader(string(body)))
	if err != nil {
		return nil, fmt.Errorf("making a ring: %w", err)
	}
	for name, value := range attributes {
		r.Header.Set("Ce-"+name, value)
	}
	r.Header.Set("Content-Type", "application/json")
	return r, nil
}

// retryAfter returns for how long a server wants to be left alone, zero if it does not say.
func retryAfter(err error) time.Duration {
	if status := (*StatusError)(nil); errors.As(err, &status) {
		return status.RetryAfter
	}
	return 0
}

// codeOf returns the status code of an error, zero if it is of another kind.
func codeOf(err error) int {
	if status := (*StatusError)(nil); errors.As(err, &status) {
		return status.Code
	}
	return 0
}
