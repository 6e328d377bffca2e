package sender

import (
	"io"
	"net/http"
	"time"
)

const (
	// bodyLimit is how much of an answer is read so that its connection can be
	// used again; beyond it a new connection is cheaper.
	bodyLimit = 64 << 10
	// bodyPatience is how long we read on after the status, which has decided.
	bodyPatience = time.Second
	// startLimit is how much of it is looked at.
	startLimit = 512
)

// finish reads what is left of an answer, within limits of size and time, and
// closes it. A reply event is not read: nobody asked for one. It returns the
// beginning of the body; stop aborts the request.
func finish(resp *http.Response, stop func()) []byte {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// The body is the connection itself now, which no context ends.
		stop()
		_ = resp.Body.Close()
		return nil
	}
	enough := time.AfterFunc(bodyPatience, stop)
	defer enough.Stop()

	start := make([]byte, startLimit)
	n, _ := io.ReadFull(resp.Body, start) // the status has decided; a torn body changes nothing
	rest, err := io.CopyN(io.Discard, resp.Body, bodyLimit-startLimit)
	if err == nil && rest == bodyLimit-startLimit {
		// There is more: closing without reading on gives up the connection.
		stop()
	}
	resp.Body.Close() //nolint:errcheck,gosec // nothing is written to it
	return start[:n]
}
