// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// itself says that this binary is to be the program.
const itself = "RUN_KUBECTL_CDEVENTS"

func TestMain(m *testing.M) {
	if os.Getenv(itself) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// No exit code with a meaning of its own tells of an interruption: a shell reports 130, and ends its script.
func TestCtrlC(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		case <-r.Context().Done():
		}
		<-r.Context().Done()
	}))
	defer server.Close()
	for _, args := range []string{"gate wait cart-gate", "watch", "list -w", "list"} {
		c := exec.CommandContext(t.Context(), os.Args[0], append(strings.Fields(args), "--server", server.URL)...) //nolint:gosec // this test itself
		c.Env = append(os.Environ(), itself+"=true")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		<-asked
		if err := c.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		err := c.Wait()
		if status, is := c.ProcessState.Sys().(syscall.WaitStatus); !is || !status.Signaled() || status.Signal() != syscall.SIGINT {
			t.Errorf("%s ended with %v", args, err)
		}
	}
}
