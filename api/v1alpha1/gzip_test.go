// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"testing"

	kjson "sigs.k8s.io/json"
)

// The JSON must be that of the []byte of earlier builds, which is the reference here.
func TestGzipIsBase64(t *testing.T) {
	t.Parallel()
	type earlier struct {
		Data []byte `json:"data,omitempty"`
	}
	type now struct {
		Data Gzip `json:"data,omitempty"`
	}
	for n := range 300 {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(7*i + n)
		}
		want, err := json.Marshal(earlier{data})
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(now{data})
		if err != nil || string(got) != string(want) {
			t.Fatalf("%d bytes: %s (%v), want %s", n, got, err, want)
		}
		var back, again now
		if err := kjson.UnmarshalCaseSensitivePreserveInts(want, &back); err != nil || string(back.Data) != string(data) {
			t.Errorf("%d bytes: a client of the API server reads %q (%v), want %q", n, back.Data, err, data)
		}
		if err := json.Unmarshal(want, &again); err != nil || string(again.Data) != string(data) {
			t.Errorf("%d bytes: read %q (%v), want %q", n, again.Data, err, data)
		}
	}
}

func TestGzipThatIsNoBase64(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"edited by hand", "H4sI", "H4sI=", "ü"} {
		raw, err := json.Marshal(map[string]string{"compressed": text})
		if err != nil {
			t.Fatal(err)
		}
		var s CDEventSubjectStatus
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &s); err != nil {
			t.Errorf("%q: %v, want no error", text, err)
		}
		if len(s.Compressed) == 0 {
			t.Errorf("%q is lost", text)
		}
	}
}
