// SPDX-License-Identifier: Apache-2.0

package service

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// The memory of a Service is stored in its ledger entry of at most 512 KiB, which also needs
// room for events.
func TestManyLabelsDoNotFillTheMemory(t *testing.T) {
	svc := newService()
	for i := range 1900 {
		svc.Labels[fmt.Sprintf("%s%05d", strings.Repeat("k", 312), i)] = strings.Repeat("v", 63)
	}
	obj, err := project.transform(svc)
	if err != nil {
		t.Fatal(err)
	}
	kept, ok := obj.(*stored)
	if !ok {
		t.Fatalf("%T", obj)
	}
	s := Compose(observer.Parts{partService: kept.part})
	r := lifecycle.Next(lifecycle.DefaultRules, lifecycle.Memory{}, s.Snapshot, time.Unix(0, 0))
	raw, err := json.Marshal(r.Memory)
	if err != nil || len(raw) > 66<<10 {
		t.Errorf("the memory has %d bytes, %v", len(raw), err)
	}
	if r.Memory.Labels["app"] != "cart" {
		t.Errorf("app is %q", r.Memory.Labels["app"])
	}
}
