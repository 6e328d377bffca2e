// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
)

const secret = "s3cret"

func newEvent(t *testing.T) event.Event {
	t.Helper()
	ev := event.New()
	ev.SetID("4f3c")
	ev.SetSource("https://cluster.example/1")
	ev.SetType("dev.cdevents.service.deployed.0.3.0")
	ev.SetSubject("shop/cart")
	if err := ev.SetData("application/json", map[string]string{"id": "cart"}); err != nil {
		t.Fatal(err)
	}
	return ev
}

// checkError asserts that an error contains the words, and no secret.
func checkError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not contain %q", err, w)
		}
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("error %q reveals a secret", err)
	}
}
