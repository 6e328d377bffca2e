// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Hooks of the application are POST requests to these paths. 404, 405 and 501 mean that it has none.
const (
	acquirePath = "/.stateful/acquire"
	releasePath = "/.stateful/release"
	// hookHeader is one that no client can send.
	hookHeader = "Stateful-Hook"
)

// hooks calls those of the application.
type hooks struct {
	// client speaks HTTP/1.1, and two HTTP/2, which is all that some servers of gRPC speak.
	client, two *http.Client
	application string
	entityType  string
	// absent: the application has said that it does not have it.
	noAcquire, noRelease atomic.Bool
}

func newHooks(application, entityType string) *hooks {
	client := func(http2 bool) *http.Client {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(!http2)
		protocols.SetUnencryptedHTTP2(http2)
		return &http.Client{
			Transport: &http.Transport{
				Protocols: protocols, Proxy: nil, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return &hooks{application: application, entityType: entityType, client: client(false), two: client(true)}
}

// Acquire implements member.Hooks.
func (h *hooks) Acquire(ctx context.Context, shard int, version, epoch int64) error {
	return h.call(ctx, acquirePath, &h.noAcquire, shard, version, epoch)
}

// Release implements member.Hooks.
func (h *hooks) Release(ctx context.Context, shard int, version, epoch int64) error {
	return h.call(ctx, releasePath, &h.noRelease, shard, version, epoch)
}

// refused reports whether there was no connection.
func refused(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial"
}

func (h *hooks) call(ctx context.Context, path string, absent *atomic.Bool, shard int, version, epoch int64) error {
	if absent.Load() {
		return nil
	}
	body, err := json.Marshal(map[string]any{
		"entityType": h.entityType, "shard": shard, "planVersion": version, "epoch": epoch,
	})
	if err != nil {
		return fmt.Errorf("encoding a hook: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+h.application+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("making a request to a hook: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(hookHeader, "1")
	resp, err := h.client.Do(req)
	if err != nil && !refused(err) && ctx.Err() == nil {
		req.Body = io.NopCloser(bytes.NewReader(body))
		resp, err = h.two.Do(req)
	}
	if err != nil {
		return fmt.Errorf("calling a hook: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()                      // nothing is read from it
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	switch {
	case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusMethodNotAllowed,
		resp.StatusCode == http.StatusNotImplemented, resp.StatusCode == http.StatusUnsupportedMediaType,
		resp.Header.Get("Grpc-Status") == "12": // as servers of gRPC say it
		absent.Store(true)
		return nil
	case resp.StatusCode >= http.StatusMultipleChoices:
		return fmt.Errorf("%s of the application answered %s", path, resp.Status)
	}
	return nil
}
