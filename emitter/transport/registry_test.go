// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/apimachinery/pkg/types"
)

// namedTransport fails with its name as the error.
type namedTransport string

func (n namedTransport) Send(context.Context, Target, event.Event, Policy) Outcome {
	return Outcome{Class: Poison, Err: namedError(n)}
}

func (namedTransport) Forget(types.UID) {}

// namedError is the name of a
type namedError string

func (e namedError) Error() string { return string(e) }

func TestSchemeSelectsTheTransport(t *testing.T) {
	var transports Registry
	transports.Register(Schemes{"http": {}, "https": {}}, namedTransport("http"))
	transports.Register(Schemes{"queue": {}}, namedTransport("queue"))
	for url, want := range map[string]string{
		"http://sink": "http", "HTTPS://sink/path": "http", "queue://topic": "queue",
		"ftp://user:word@sink": `sending to ftp://sink: unsupported protocol scheme "ftp"`,
	} {
		out := transports.Send(t.Context(), Target{URL: url}, event.New(), DefaultPolicy())
		if out.Err.Error() != want {
			t.Errorf("%s: %v, want %s", url, out.Err, want)
		}
		if kept := out.Class == Retry; kept != strings.HasPrefix(url, "ftp") {
			t.Errorf("%s: %v", url, out.Class)
		}
	}
}
