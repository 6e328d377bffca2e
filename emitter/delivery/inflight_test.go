// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"errors"
	"slices"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// An entry is forgotten while an attempt is under way, and the object is announced anew: its new events have the numbers
// of the earlier ones. The answer says nothing about them.
func TestAnswerToAForgottenEventSettlesNoOther(t *testing.T) {
	for name, answer := range map[string]transport.Outcome{
		"accepted": accepted,
		"refused":  {Class: transport.Poison, Status: 400, Err: errors.New("the sink answered 400")},
	} {
		s := newStage(t, sourceTo("all", "sink"))
		sent, answered := make(chan struct{}), make(chan struct{})
		s.answer("sink", func() transport.Outcome { close(sent); <-answered; return answer })
		s.happens(t, "cart", lifecycle.Created)
		<-sent
		s.forget(t)
		s.happens(t, "cart", lifecycle.Deployed)
		s.answer("sink", func() transport.Outcome { return accepted })
		close(answered)
		s.eventually(t, name+": nothing is pending", func() bool { return s.pending("uid-all") == 0 })
		if got := s.received(); !slices.Contains(got, "sink service/shop/cart deployed") {
			t.Errorf("%s: received %q, without deployed", name, got)
		}
		if n := s.dropped[ledger.DroppedRejected]; n > 0 {
			t.Errorf("%s: %d events are counted as refused, although they were forgotten before", name, n)
		}
	}
}
