// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// many returns labels with the longest keys and values that Kubernetes accepts.
func many(n int) map[string]string {
	out := map[string]string{}
	for i := range n {
		out[strings.Repeat("k", 312)+fmt.Sprintf("%05d", i)] = strings.Repeat("v", 63)
	}
	return out
}

func TestLabelsAreBounded(t *testing.T) {
	few := many(160)
	if got := lifecycle.BoundLabels(few); !maps.Equal(got, few) {
		t.Errorf("kept %d of %d labels within the bound", len(got), len(few))
	}
	all := many(1900)
	all["a"], all["team"], all["z/always"] = "first", "red", "here"
	got := lifecycle.BoundLabels(all, "z/always", "z/absent")
	raw, err := json.Marshal(got)
	if err != nil || len(raw) > 64<<10 || len(raw) < 63<<10 {
		t.Errorf("kept %d bytes of labels (%v)", len(raw), err)
	}
	if again := lifecycle.BoundLabels(got, "z/always"); !maps.Equal(again, got) {
		t.Errorf("the second call kept %d of %d labels", len(again), len(got))
	}
	for key, want := range map[string]bool{"a": false, "absent": false, "k": false, "team": true, "zone": true, "z/always": false} {
		if lifecycle.LabelDropped(got, key) != want {
			t.Errorf("%s: dropped is %v", key, !want)
		}
	}
	if got["a"] != "first" || got["z/always"] != "here" {
		t.Errorf("kept %q and %q", got["a"], got["z/always"])
	}
	if lifecycle.LabelDropped(few, "zone") || lifecycle.LabelDropped(nil, "zone") {
		t.Error("reports a dropped label, but all were kept")
	}
}
