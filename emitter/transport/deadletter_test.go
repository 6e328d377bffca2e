// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDeadLetterHasTheReason(t *testing.T) {
	t.Parallel()
	ev := newEvent(t)
	sink := Target{URL: "https://user:" + secret + "@sink.example/" + secret + "?t=" + secret}
	letter := DeadLetter(ev, sink, Outcome{Class: Poison, Status: http.StatusBadRequest, Err: errors.New(strings.Repeat("ü", 2000))})

	ext := letter.Extensions()
	if ext["knativeerrordest"] != "https://sink.example" {
		t.Errorf("knativeerrordest %v", ext["knativeerrordest"])
	}
	if ext["knativeerrorcode"] != int32(400) {
		t.Errorf("knativeerrorcode %T %v", ext["knativeerrorcode"], ext["knativeerrorcode"])
	}
	if data, ok := ext["knativeerrordata"].(string); !ok || len(data) > 1024 || len(data) < 1000 || !utf8.ValidString(data) {
		t.Errorf("knativeerrordata %v", ext["knativeerrordata"])
	}
	if letter.ID() != ev.ID() || string(letter.Data()) != string(ev.Data()) {
		t.Error("the dead letter has another id or other data")
	}
	if _, changed := ev.Extensions()["knativeerrordest"]; changed {
		t.Error("DeadLetter changed the original event")
	}
	if short := DeadLetter(ev, sink, Outcome{Err: errors.New("why")}); short.Extensions()["knativeerrordata"] != "why" ||
		short.Extensions()["knativeerrorcode"] != nil {
		t.Error(short.Extensions())
	}
}
