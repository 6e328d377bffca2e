// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/websocket"
)

// Streams sends requests to the application of test/apps/streams that are more than a question and an answer. Each has
// a key. The ids name streams; no two may have the same one.
type Streams struct {
	// address is where to connect to, as host:port, and host is the name of the Service there.
	address, host string
	client        *http.Client
}

// streamWithin bounds each request.
const streamWithin = time.Minute

// NewStreams returns clients of a Service at an address.
func NewStreams(address, host string) *Streams {
	return &Streams{address: address, host: host, client: &http.Client{
		// One connection per request, as of Ingress.
		Timeout: streamWithin, Transport: &http.Transport{DisableKeepAlives: true},
	}}
}

// Seen is what the pod that handles a key has seen of a stream.
type Seen struct {
	Pod          string
	Begun, Ended bool
	Bytes        int64
	Shard, Key   string
}

func (s *Streams) request(ctx context.Context, method, path, key string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.address+path, body)
	if err != nil {
		return nil, fmt.Errorf("making a request for %s: %w", path, err)
	}
	req.Host = s.host
	req.Header.Set("X-Key", key)
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("requesting %s: %w", path, err)
	}
	return resp, nil
}

// ask sends a request, and reads the JSON of its answer, if into is not nil.
func (s *Streams) ask(ctx context.Context, method, path, key string, body io.Reader, into any) error {
	resp, err := s.request(ctx, method, path, key, body)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it has been read
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("reading the answer of %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %d %.200s", path, resp.StatusCode, text)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s answered %.200s: %w", path, text, err)
	}
	return nil
}

// State asks what was seen of a stream.
func (s *Streams) State(ctx context.Context, key, id string) (out Seen, err error) {
	return out, s.ask(ctx, http.MethodGet, "/state/"+id, key, nil, &out)
}

// waitSeen waits until the application has seen something of a stream.
func waitSeen(ctx context.Context, what string, ask func(context.Context) (Seen, error), is func(Seen) bool) error {
	return Wait(ctx, 30*time.Second, what, func(ctx context.Context) error {
		now, err := ask(ctx)
		if err != nil {
			return err
		}
		if !is(now) {
			return NotYet("it has seen %+v", now)
		}
		return nil
	})
}

func (s *Streams) waitSeen(ctx context.Context, what, key, id string, is func(Seen) bool) error {
	return waitSeen(ctx, what, func(ctx context.Context) (Seen, error) { return s.State(ctx, key, id) }, is)
}

func ended(one Seen) bool { return one.Begun && one.Ended }

// WebSocket exchanges a number of messages, each after the answer to the one before, and leaves. The application learns
// that it has.
func (s *Streams) WebSocket(ctx context.Context, key, id string, messages int) error {
	config := &websocket.Config{
		Location: &url.URL{Scheme: "ws", Host: s.host, Path: "/echo/" + id}, Origin: &url.URL{Scheme: "http", Host: s.host},
		Version: websocket.ProtocolVersionHybi13, Header: http.Header{"X-Key": {key}},
	}
	raw, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = raw.Close() }()
	conn, err := websocket.NewClient(config, raw)
	if err != nil {
		return fmt.Errorf("upgrading to a WebSocket: %w", err)
	}
	for i := range messages {
		sent := fmt.Sprintf("message %d", i)
		if err := websocket.Message.Send(conn, sent); err != nil {
			return fmt.Errorf("sending %q: %w", sent, err)
		}
		var got string
		if err := websocket.Message.Receive(conn, &got); err != nil || got != sent {
			return fmt.Errorf("the answer to %q is %q: %w", sent, got, err)
		}
	}
	if err := conn.Close(); err != nil {
		return fmt.Errorf("closing the WebSocket: %w", err)
	}
	return s.waitSeen(ctx, "the end of the WebSocket", key, id, ended)
}

func (s *Streams) dial(ctx context.Context) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.address)
	if err != nil {
		return nil, fmt.Errorf("connecting to the Service: %w", err)
	}
	if err := conn.SetDeadline(time.Now().Add(streamWithin)); err != nil {
		return nil, fmt.Errorf("connecting to the Service: %w", err)
	}
	return conn, nil
}

// Events receives a number of server-sent events, of which the application writes each after the one before has come,
// and leaves.
func (s *Streams) Events(ctx context.Context, key, id string, events int) error {
	listening, leave := context.WithCancel(ctx)
	defer leave()
	resp, err := s.request(listening, http.MethodGet, "/events/"+id, key, nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
		return fmt.Errorf("the answer is %s with %s", resp.Status, kind)
	}
	in := bufio.NewReader(resp.Body)
	for i := range events {
		line, err := in.ReadString('\n')
		if err != nil || line != fmt.Sprintf("data: %d\n", i) {
			return fmt.Errorf("event %d is %q: %w", i, line, err)
		}
		if line, err = in.ReadString('\n'); err != nil || line != "\n" {
			return fmt.Errorf("event %d ends with %q: %w", i, line, err)
		}
		if err := s.ask(ctx, http.MethodPost, "/next/"+id, key, nil, nil); err != nil {
			return err
		}
	}
	leave()
	return s.waitSeen(ctx, "the end of the events", key, id, ended)
}

// Upload sends bytes of which nobody keeps the most: the rest comes after the application has read some of them. It
// compares the hashes.
func (s *Streams) Upload(ctx context.Context, key, id string, size int64) error {
	body, out := io.Pipe()
	hash := sha256.New()
	random := rand.NewChaCha8([32]byte{1})
	go func() {
		const first = 1 << 20
		both := io.MultiWriter(out, hash)
		_, err := io.CopyN(both, random, first)
		if err == nil {
			err = s.waitSeen(ctx, "the first part of the upload", key, id, func(one Seen) bool { return one.Bytes >= first/2 })
		}
		if err == nil {
			_, err = io.CopyN(both, random, size-first)
		}
		_ = out.CloseWithError(err) // it never fails
	}()
	var got struct {
		Bytes  int64
		SHA256 string
	}
	if err := s.ask(ctx, http.MethodPut, "/upload/"+id, key, body, &got); err != nil {
		return err
	}
	if want := hex.EncodeToString(hash.Sum(nil)); got.Bytes != size || got.SHA256 != want {
		return fmt.Errorf("%d bytes with the hash %s came, want %d with %s", got.Bytes, got.SHA256, size, want)
	}
	return nil
}

// Expect sends the header of a request with "Expect: 100-continue", and the body after it was asked for.
func (s *Streams) Expect(ctx context.Context, key, id string) error {
	const body = "hello"
	conn, in, err := s.expect(ctx, http.MethodPut, "/upload/"+id, key, len(body))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	line, err := in.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		return fmt.Errorf("want 100 Continue, got %q: %w", line, err)
	}
	for line != "\r\n" {
		if line, err = in.ReadString('\n'); err != nil {
			return fmt.Errorf("reading the header of 100 Continue: %w", err)
		}
	}
	if _, err := io.WriteString(conn, body); err != nil {
		return fmt.Errorf("sending the body: %w", err)
	}
	resp, err := final(in)
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it has been read
	var got struct{ Bytes int }
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || got.Bytes != len(body) {
		return fmt.Errorf("the answer is %s with %d bytes: %w", resp.Status, got.Bytes, err)
	}
	return nil
}

// final reads the final answer, after any number of interim ones (RFC 9110, section 15.2). A proxy that has asked for
// the body because nobody answered for a second, passes on 100 Continue all the same.
func final(in *bufio.Reader) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil || resp.StatusCode >= http.StatusOK || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err //nolint:wrapcheck // the caller says what is read
		}
		_ = resp.Body.Close() // an interim answer has none
	}
}

// Refused does this with a request that the application refuses without reading the body, and returns whether it was
// asked for the body all the same: each proxy does so after a second without an answer.
func (s *Streams) Refused(ctx context.Context, key string) (asked bool, err error) {
	conn, in, err := s.expect(ctx, http.MethodPost, "/refuse", key, 5)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	line, err := in.ReadString('\n')
	switch {
	case err != nil:
		return false, fmt.Errorf("reading the answer: %w", err)
	case strings.HasPrefix(line, "HTTP/1.1 100 "):
		return true, nil
	case !strings.HasPrefix(line, "HTTP/1.1 403 "):
		return false, fmt.Errorf("want 403, got %q", line)
	}
	return false, nil
}

func (s *Streams) expect(ctx context.Context, method, path, key string, length int) (net.Conn, *bufio.Reader, error) {
	conn, err := s.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\nX-Key: %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
		method, path, s.host, key, length)
	if err != nil {
		_ = conn.Close()
		return nil, nil, fmt.Errorf("sending the header: %w", err)
	}
	return conn, bufio.NewReader(conn), nil
}

// Cancel gives up a request after the application has it. The application learns that.
func (s *Streams) Cancel(ctx context.Context, key, id string) error {
	waiting, giveUp := context.WithCancel(ctx)
	defer giveUp()
	done := make(chan error, 1)
	go func() { done <- s.ask(waiting, http.MethodGet, "/wait/"+id, key, nil, nil) }()
	if err := s.waitSeen(ctx, "the request", key, id, func(one Seen) bool { return one.Begun }); err != nil {
		return err
	}
	giveUp()
	if err := <-done; !errors.Is(err, context.Canceled) {
		return fmt.Errorf("the request ended before it was given up: %w", err)
	}
	return s.waitSeen(ctx, "the end of the request", key, id, ended)
}
