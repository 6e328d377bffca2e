// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestAStepEndsOnceAndSaysHow(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := New(&out)
	if err := r.Begin("building etcd", "log: /x").End(nil); err != nil {
		t.Error(err)
	}
	fail := errors.New("no disk")
	step := r.Begin("building ko", "")
	if err := step.End(fail); !errors.Is(err, fail) {
		t.Errorf("got %v", err)
	}
	_ = step.End(nil) // the second end must print nothing
	got := out.String()
	for _, want := range []string{"building etcd …  (log: /x)", "building etcd done in", "building ko FAILED in"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%q does not occur once in\n%s", want, got)
		}
	}
	if lines := strings.Count(got, "\n"); lines != 4 {
		t.Errorf("%d lines:\n%s", lines, got)
	}
}
