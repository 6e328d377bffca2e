package lifecycle_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// many are labels of the longest keys and values that Kubernetes accepts.
func many(n int) map[string]string {
	out := map[string]string{}
	for i := range n {
		out[strings.Repeat("k", 312)+fmt.Sprintf("%05d", i)] = strings.Repeat("v", 63)
	}
	return out
}

func TestLabelsAreRememberedWithinABound(t *testing.T) {
	few := many(160)
	if got := lifecycle.Remembered(few); !maps.Equal(got, few) {
		t.Errorf("%d of %d are kept, within the bound", len(got), len(few))
	}
	all := many(1900)
	all["a"], all["team"], all["z/always"] = "first", "red", "here"
	got := lifecycle.Remembered(all, "z/always", "z/absent")
	raw, err := json.Marshal(got)
	if err != nil || len(raw) > 64<<10 || len(raw) < 63<<10 {
		t.Errorf("%d bytes of labels are kept, %v", len(raw), err)
	}
	if again := lifecycle.Remembered(got, "z/always"); !maps.Equal(again, got) {
		t.Errorf("the second time, %d are kept of %d", len(again), len(got))
	}
	for key, want := range map[string]bool{"a": false, "absent": false, "k": false, "team": true, "zone": true, "z/always": false} {
		if lifecycle.LeftOut(got, key) != want {
			t.Errorf("%s: left out is %v", key, !want)
		}
	}
	if got["a"] != "first" || got["z/always"] != "here" {
		t.Errorf("kept are %q and %q", got["a"], got["z/always"])
	}
	if lifecycle.LeftOut(few, "zone") || lifecycle.LeftOut(nil, "zone") {
		t.Error("nothing was left out")
	}
}
