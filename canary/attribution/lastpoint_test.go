// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"testing"
	"time"
)

// The last requests of a Service's last pods are read a few seconds after a point of the window. Later they are no
// part of it.
func TestSharesEndAfterTheLastPod(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	b.pass(15 * time.Second)
	b.readBoth(handled(30, 0), handled(10, 0)) // a point
	b.pass(4 * time.Second)                    // the pods are being deleted
	b.readBoth(handled(30, 0), handled(20, 0)) // ten more, too soon for another point
	b.facts.Pods = nil
	b.pass(4 * time.Second)
	b.Read(cart, nil) // the last reading
	b.pass(24 * time.Hour)
	f := b.one(t)
	for _, r := range f.Revisions {
		if r.Share != nil {
			t.Errorf("a day after the last request, the share of %s is %v", r.UID, *r.Share)
		}
	}
	// Then it has pods again, with an even split.
	b.facts.Pods = []Pod{{UID: "p3", Revision: "r1", Ready: true}, {UID: "p4", Revision: "r2", Ready: true}}
	b.pass(15 * time.Second)
	b.read("p3", false, handled(5, 0))
	b.read("p4", false, handled(5, 0))
	f = b.one(t)
	if s := f.Revisions[1].Share; s == nil || *s != .5 {
		t.Errorf("five requests each, and the share is %v", *s)
	}
}

// A pod goes between Begin and the first reading, and the Service has no other. The runner reads once after each Begin.
func TestPodGoesAfterBegin(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	other, _ := b.Snapshot(cart)
	b.End(cart)
	b.Begin(cart, false) // a new leader, while the pods still exist
	b.facts.Pods = nil
	b.Read(cart, nil)
	b.pass(time.Hour)
	f := b.one(t)
	for _, r := range f.Revisions {
		if r.Pods != 0 || r.ScrapeAge != nil {
			t.Errorf("%s has %d pods, last read %v ago", r.UID, r.Pods, r.ScrapeAge)
		}
	}
	if _, known := b.Since(cart, other); !known {
		t.Error("what happened since the snapshot of the former leader is never known")
	}
}
