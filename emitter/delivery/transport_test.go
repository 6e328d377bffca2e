// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/emitter/delivery/sender"
)

// namedTransport fails with its name as the error.
type namedTransport string

func (n namedTransport) Send(context.Context, sender.Target, event.Event, sender.Policy) sender.Outcome {
	return sender.Outcome{Class: sender.Poison, Err: namedError(n)}
}

func (namedTransport) Forget(types.UID) {}

// namedError is the name of a transport.
type namedError string

func (e namedError) Error() string { return string(e) }

func TestSchemeSelectsTheTransport(t *testing.T) {
	transports := HTTP(namedTransport("http"))
	transports["queue"] = namedTransport("queue")
	for url, want := range map[string]string{
		"http://sink": "http", "HTTPS://sink/path": "http", "queue://topic": "queue",
		"ftp://user:word@sink": `sending to ftp://sink: unsupported protocol scheme "ftp"`,
	} {
		out := transports.send(t.Context(), sender.Target{URL: url}, event.New(), sender.DefaultPolicy())
		if out.Err.Error() != want {
			t.Errorf("%s: %v, want %s", url, out.Err, want)
		}
		if kept := out.Class == sender.Retry; kept != strings.HasPrefix(url, "ftp") {
			t.Errorf("%s: %v", url, out.Class)
		}
	}
}
