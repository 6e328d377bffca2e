// SPDX-License-Identifier: Apache-2.0

package http

import (
	"io"
	"net/http"
	"time"
)

const (
	// bodyLimit is how much of an answer is read to reuse its connection. Beyond it, a new
	// connection is cheaper.
	bodyLimit = 64 << 10
	// bodyPatience is how long reading goes on after the status, which decides.
	bodyPatience = time.Second
	// startLimit is how much of the body is inspected.
	startLimit = 512
)

// finish reads the rest of an answer, within limits of size and time, and closes it. It
// returns the beginning of the body; stop aborts the request. Reply events are ignored.
func finish(resp *http.Response, stop func()) []byte {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// The body is now the connection itself, which no context closes.
		stop()
		_ = resp.Body.Close()
		return nil
	}
	enough := time.AfterFunc(bodyPatience, stop)
	defer enough.Stop()

	start := make([]byte, startLimit)
	n, _ := io.ReadFull(resp.Body, start) // the status decides; a torn body changes nothing
	rest, err := io.CopyN(io.Discard, resp.Body, bodyLimit-startLimit)
	if err == nil && rest == bodyLimit-startLimit {
		// There is more. Closing without reading it gives up the connection.
		stop()
	}
	resp.Body.Close() //nolint:errcheck,gosec // nothing is written to it
	return start[:n]
}
