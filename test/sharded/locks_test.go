// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	provider "github.com/asynkron/protoactor-go/cluster/clusterproviders/test"
)

// TestAShardTakesALockAndGivesItBack: in a member that leaves, each shard says so when it starts and after its last
// message.
func TestAShardTakesALockAndGivesItBack(t *testing.T) {
	t.Parallel()
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	said := make(chan string, 10)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		read := bufio.NewReader(conn)
		req, err := http.ReadRequest(read)
		if err != nil {
			return
		}
		said <- req.Method + " " + req.URL.String()
		_, _ = fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: locks\r\n\r\n")
		for {
			line, err := read.ReadString('\n')
			if err != nil {
				return
			}
			said <- line
			_, _ = fmt.Fprintln(conn, map[bool]string{true: "held by another", false: "ok"}[line[0] == 't'])
		}
	}()

	conf := testConfig("cart-00001", 0)
	conf.Locks = listener.Addr().String()
	n := startNode(t, provider.NewInMemAgent(), conf)
	n.get(t, "cart-1", "request-1")
	n.leave(t.Context())
	name := fmt.Sprint(shardOf("cart-1", 100))
	for _, want := range []string{"POST /hold?pod=cart-00001-pod-0", "take shard-" + name + "\n", "give shard-" + name + "\n"} {
		select {
		case got := <-said:
			if got != want {
				t.Errorf("the member said %q, want %q", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("the member did not say %q", want)
		}
	}
}

func TestLocksThatCannotBeReachedEndTheMember(t *testing.T) {
	t.Parallel()
	conf := testConfig("cart-00001", 0)
	conf.Locks = "127.0.0.1:1"
	if m, err := newMember(t.Context(), conf, newCounts(conf), provider.NewTestProvider(provider.NewInMemAgent()), "127.0.0.1", 0); err == nil {
		t.Errorf("got %v, want an error", m)
	}
}
