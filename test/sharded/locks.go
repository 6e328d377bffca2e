// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// locks are those of this pod, in a program outside of the cluster (test/apps/locks). It sees whether two pods run the
// same entity at once. A nil *locks does nothing.
type locks struct {
	mu   sync.Mutex
	conn net.Conn
	read *bufio.Reader
}

// lockWithin bounds each exchange with the program.
const lockWithin = 5 * time.Second

// dialLocks connects to the program. It gives all locks of this pod back when the connection ends.
func dialLocks(ctx context.Context, address, pod string) (*locks, error) {
	var dialer net.Dialer
	ctx, cancel := context.WithTimeout(ctx, lockWithin)
	defer cancel()
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connecting to LOCKS=%s: %w", address, err)
	}
	l := &locks{conn: conn, read: bufio.NewReader(conn)}
	if err := l.hold(pod); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("connecting to LOCKS=%s: %w", address, err)
	}
	return l, nil
}

func (l *locks) hold(pod string) error {
	if err := l.conn.SetDeadline(time.Now().Add(lockWithin)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(l.conn, "POST /hold?pod=%s HTTP/1.1\r\nHost: locks\r\nContent-Length: 0\r\n\r\n", pod); err != nil {
		return err
	}
	resp, err := http.ReadResponse(l.read, nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("the answer is %s", resp.Status)
	}
	return nil
}

// take waits until the program knows that an entity runs here.
func (l *locks) take(entity string) error { return l.say("take " + entity) }

// give waits until the program knows that an entity does not run here any more.
func (l *locks) give(entity string) error { return l.say("give " + entity) }

// say does not look at who else holds the lock: the program records it.
func (l *locks) say(line string) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.conn.SetDeadline(time.Now().Add(lockWithin)); err != nil {
		return fmt.Errorf("%s: %w", line, err)
	}
	if _, err := fmt.Fprintln(l.conn, line); err != nil {
		return fmt.Errorf("%s: %w", line, err)
	}
	got, err := l.read.ReadString('\n')
	if err != nil {
		return fmt.Errorf("%s: %w", line, err)
	}
	if got = strings.TrimSpace(got); got != "ok" && !strings.HasPrefix(got, "held by ") {
		return fmt.Errorf("%s: the answer is %q", line, got)
	}
	return nil
}
