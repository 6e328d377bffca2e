// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// mostListed bounds the list of locks that were held twice. All are counted.
const mostListed = 100

// twice is a lock that a pod took while others held it.
type twice struct {
	Lock    string    `json:"lock"`
	Holders []string  `json:"holders"`
	Taker   string    `json:"taker"`
	Time    time.Time `json:"time"`
}

// report is the response to GET /locks.
type report struct {
	// Taken and Held count locks that were taken since the start, and that are held now.
	Taken int `json:"taken"`
	Held  int `json:"held"`
	// HeldTwice counts the locks in Twice, and those that did not fit.
	HeldTwice int     `json:"heldTwice"`
	Twice     []twice `json:"twice"`
	// Pods are the connections that are open, by the pod's name. Ended has the number of locks that a pod held when its
	// connection ended.
	Pods  map[string]int `json:"pods"`
	Ended map[string]int `json:"ended"`
}

type locks struct {
	now func() time.Time

	mu sync.Mutex
	// holders are the pods that hold each lock. A pod is in it twice if two of its entities hold the lock.
	holders map[string][]string
	report  report
}

func newLocks(now func() time.Time) *locks {
	return &locks{now: now, holders: map[string][]string{}, report: report{Twice: []twice{}, Pods: map[string]int{}, Ended: map[string]int{}}}
}

func (l *locks) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /locks", func(w http.ResponseWriter, _ *http.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(l.report) // ignore a client that has disconnected
	})
	mux.HandleFunc("POST /hold", l.hold)
	return mux
}

// hold turns a request into a connection that holds the locks of a pod: each line "take NAME" or "give NAME" is
// answered with a line. All its locks are given back when the connection ends. With ?lock=NAME, it holds that lock from
// the start; its client ends it in order by half, and the lock is given back before the other half ends.
func (l *locks) hold(w http.ResponseWriter, r *http.Request) {
	pod := r.URL.Query().Get("pod")
	if pod == "" {
		http.Error(w, "name the pod: /hold?pod=NAME", http.StatusBadRequest)
		return
	}
	conn, both, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = conn.Close() }()
	if tcp, is := conn.(*net.TCPConn); is {
		// A node that vanished says no good-bye.
		if err := tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 3}); err != nil {
			log.Printf("watching the connection of %s: %v", pod, err)
		}
	}
	held := map[string]int{}
	l.open(pod)
	defer func() { l.end(pod, held) }()
	if lock := r.URL.Query().Get("lock"); lock != "" {
		l.take(lock, pod)
		defer l.give(lock, pod)
	}
	if err := l.serve(both, pod, held); err != nil {
		log.Printf("the connection of %s ended: %v", pod, err)
	}
}

// serve answers the lines of a connection until it ends. It keeps in held which locks the connection has.
func (l *locks) serve(both *bufio.ReadWriter, pod string, held map[string]int) error {
	reply := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: locks\r\n\r\n"
	for {
		if _, err := both.WriteString(reply); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
		if err := both.Flush(); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
		line, err := both.ReadString('\n')
		if err == io.EOF { //nolint:errorlint // bufio returns it as it is
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading: %w", err)
		}
		what, lock, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case what == "take" && lock != "":
			held[lock]++
			reply = l.take(lock, pod) + "\n"
		case what == "give" && held[lock] > 0:
			if held[lock]--; held[lock] == 0 {
				delete(held, lock)
			}
			l.give(lock, pod)
			reply = "ok\n"
		default:
			return fmt.Errorf("cannot understand %q, or the lock is not held", line)
		}
	}
}

func (l *locks) take(lock, pod string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	others := slices.Clone(l.holders[lock])
	l.holders[lock] = append(l.holders[lock], pod)
	l.report.Taken++
	l.report.Held++
	if len(others) == 0 {
		return "ok"
	}
	log.Printf("%s takes %s while %v hold it", pod, lock, others)
	if l.report.HeldTwice++; len(l.report.Twice) < mostListed {
		l.report.Twice = append(l.report.Twice, twice{lock, others, pod, l.now()})
	}
	return "held by " + strings.Join(others, ",")
}

func (l *locks) give(lock, pod string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(lock, pod)
}

// drop removes one holder. The caller has the mutex.
func (l *locks) drop(lock, pod string) {
	i := slices.Index(l.holders[lock], pod)
	l.report.Held--
	if l.holders[lock] = slices.Delete(l.holders[lock], i, i+1); len(l.holders[lock]) == 0 {
		delete(l.holders, lock)
	}
}

func (l *locks) open(pod string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Pods[pod]++
}

func (l *locks) end(pod string, held map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := 0
	for lock, n := range held {
		sum += n
		for range n {
			l.drop(lock, pod)
		}
	}
	l.report.Ended[pod] += sum
	if l.report.Pods[pod]--; l.report.Pods[pod] == 0 {
		delete(l.report.Pods, pod)
	}
}
