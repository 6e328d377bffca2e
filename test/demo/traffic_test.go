// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

func TestMeasureCountsByRevision(t *testing.T) {
	l := &load{}
	l.window()
	for i := range 10 {
		revision := "one"
		if i == 0 {
			revision = "two"
		}
		l.count(kit.Answer{Status: http.StatusOK, Revision: revision}, nil)
	}
	l.count(kit.Answer{Status: http.StatusBadGateway}, nil)
	l.count(kit.Answer{}, errors.New("nobody there"))

	m := l.measure()
	if m.requests != 12 || m.errors != 2 {
		t.Errorf("got %d requests and %d errors, want 12 and 2", m.requests, m.errors)
	}
	if len(m.shares) != 2 || m.shares[0] != (shareOf{"one", 0.9}) || m.shares[1] != (shareOf{"two", 0.1}) {
		t.Errorf("got shares %v, want one 90 %%, two 10 %%: errors belong to no Revision", m.shares)
	}

	l.window()
	if m := l.measure(); m.requests != 0 || m.errors != 0 || len(m.shares) != 0 {
		t.Errorf("a new window is not empty: %+v", m)
	}
	if requests, failed, last := l.totals(); requests != 12 || failed != 2 || last == nil {
		t.Errorf("the totals are %d, %d, %v, want 12, 2 and the error", requests, failed, last)
	}
}
