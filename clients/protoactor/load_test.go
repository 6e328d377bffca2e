// SPDX-License-Identifier: Apache-2.0

package protoactor

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/cluster"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// load sends requests to all carts, from all members.
type load struct {
	fleet   *fleet
	stop    chan struct{}
	senders sync.WaitGroup

	sent, retried, unanswered atomic.Int64
	mu                        sync.Mutex
	answered                  []string
}

func (f *fleet) load() *load {
	l := &load{fleet: f, stop: make(chan struct{})}
	for i, n := range f.nodes {
		for j := range 4 {
			l.senders.Go(func() {
				for k := 0; ; k++ {
					select {
					case <-l.stop:
						return
					default:
					}
					if n.down.Load() {
						return
					}
					l.send(n, (k*7+i*31+j*53)%(2*testShards), fmt.Sprintf("%d-%d-%d", i, j, k))
					time.Sleep(time.Millisecond)
				}
			})
		}
	}
	return l
}

// send asks a cart, with the caller's retry.
func (l *load) send(n *node, identity int, request string) {
	l.sent.Add(1)
	attempts := 0
	_, err := n.cluster.Request(strconv.Itoa(identity), "Cart", wrapperspb.String(request), cluster.WithRetryCount(100),
		cluster.WithRetryAction(func(i int) int {
			attempts++
			time.Sleep(10 * time.Millisecond)
			return i + 1
		}))
	if attempts > 0 {
		l.retried.Add(1)
	}
	if err != nil {
		l.unanswered.Add(1)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered = append(l.answered, request)
}

// end stops the load, and checks that each answered request was handled once.
func (l *load) end() {
	l.fleet.Helper()
	close(l.stop)
	l.senders.Wait()
	l.fleet.registry.mu.Lock()
	defer l.fleet.registry.mu.Unlock()
	for _, r := range l.answered {
		if n := l.fleet.registry.handled[r]; n != 1 {
			l.fleet.Errorf("request %s was answered, and handled %d times", r, n)
		}
	}
	l.fleet.Logf("%d requests: %d failed at the first attempt, %d without an answer", l.sent.Load(), l.retried.Load(), l.unanswered.Load())
}

// touch activates two carts of each shard.
func (f *fleet) touch(n *node) {
	f.Helper()
	l := &load{fleet: f}
	for i := range 2 * testShards {
		l.send(n, i, fmt.Sprintf("touch-%s-%d-%d", n.name, i, time.Now().UnixNano()))
	}
	if l.unanswered.Load() > 0 {
		f.Fatalf("%d carts did not answer", l.unanswered.Load())
	}
}
