// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const auditLog = `{"kind":"Event","verb":"update","user":{"username":"knative-cdevents"},"objectRef":{"resource":"cdeventsubjects","name":"a"}}
{"kind":"Event","verb":"update","user":{"username":"bare"},"objectRef":{"resource":"cdeventsubjects","name":"a"}}
{"kind":"Event","verb":"create","user":{"username":"knative-cdevents"},"objectRef":{"resource":"cdeventsubjects"}}
{"kind":"Event","verb":"update","user":{"username":"knative-cdevents"},"objectRef":{"resource":"cdeventsources","subresource":"status"}}
`

func TestAudit(t *testing.T) {
	a := audit{filepath.Join(t.TempDir(), "audit.log")}
	if n, err := a.size(); n != 0 || err != nil {
		t.Errorf("before the first write: %d, %v", n, err)
	}
	if got, err := a.writes(0, "bare"); len(got) != 0 || err != nil {
		t.Errorf("before the first write: %v, %v", got, err)
	}
	if err := os.WriteFile(a.path, []byte(auditLog), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := a.writes(0, "knative-cdevents")
	if err != nil || !maps.Equal(got, map[string]int{"cdeventsubjects": 2, "cdeventsources/status": 1}) {
		t.Errorf("got %v, %v", got, err)
	}
	got, err = a.writes(int64(strings.LastIndex(strings.TrimSpace(auditLog), "\n")+1), "knative-cdevents")
	if err != nil || !maps.Equal(got, map[string]int{"cdeventsources/status": 1}) {
		t.Errorf("the last line: got %v, %v", got, err)
	}
	if _, err := countWrites(strings.NewReader("not an event"), "bare"); err == nil {
		t.Error("a line that is not an event was accepted")
	}
}

func TestAuditPolicyNamesAllContestants(t *testing.T) {
	for _, c := range contestants {
		if !strings.Contains(auditPolicy(), c.Name) {
			t.Errorf("%s is missing", c.Name)
		}
	}
}
