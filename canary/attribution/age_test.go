// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"testing"
	"time"
)

// The age of a pod counts from its process, from readiness, and from its first request. Not being ready for
// a while does not make it young again; another process of its container does.
func TestAgeOfAPod(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Unix(1.8e9, 0).Add(time.Duration(minute) * time.Minute) }
	var b birth
	if !b.since(at(0)).IsZero() {
		t.Error("an unknown age is known")
	}
	b.learn(Pod{Started: at(1)})
	if b.since(at(2)) != at(2) {
		t.Error("a pod that is not ready has an age")
	}
	b.learn(Pod{Started: at(1), Ready: true, ReadySince: at(3)})
	if b.since(at(9)) != at(9) {
		t.Error("a pod without requests has an age")
	}
	b.ask(at(10))
	b.ask(at(11))
	if b.since(at(12)) != at(10) {
		t.Errorf("the age counts from %s", b.since(at(12)))
	}
	b.learn(Pod{Started: at(1)})
	b.learn(Pod{Started: at(1), Ready: true, ReadySince: at(20)})
	if b.since(at(21)) != at(10) {
		t.Errorf("after it was not ready, the age counts from %s", b.since(at(21)))
	}
	b.learn(Pod{Started: at(30), Ready: true, ReadySince: at(31)})
	if b.since(at(32)) != at(31) {
		t.Errorf("after a restart, the age counts from %s", b.since(at(32)))
	}
	// Another process that continues knows of no first request.
	next := birth{started: at(1), ready: at(3)}
	next.ask(time.Time{})
	if next.inherit(at(10)); next.since(at(12)) != at(10) {
		t.Errorf("the next process counts from %s", next.since(at(12)))
	}
}
