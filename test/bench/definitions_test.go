// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

func TestRequests(t *testing.T) {
	a := audit{filepath.Join(t.TempDir(), "audit.log")}
	log := `{"auditID":"1","stage":"ResponseStarted","verb":"watch","user":{"username":"knative-cdevents-reading"},"objectRef":{"resource":"clusters"}}
{"auditID":"1","stage":"ResponseComplete","verb":"watch","user":{"username":"knative-cdevents-reading"},"objectRef":{"resource":"clusters"}}
{"auditID":"2","verb":"get","user":{"username":"knative-cdevents-reading"},"requestURI":"/apis/cluster.x-k8s.io"}
{"auditID":"3","verb":"get","user":{"username":"knative-cdevents"},"objectRef":{"resource":"leases"}}
`
	if err := os.WriteFile(a.path, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := a.requests(0, watcher.Name)
	if err != nil || !maps.Equal(got, map[string]int{"watch clusters": 1, "get discovery": 1}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestReportOfDefinitions(t *testing.T) {
	r := report{plan: whole}
	r.results.Definitions = []surrounded{
		{memory: memory{Resident: 80 << 20}, Requests: map[string]int{"update leases": 300}, Minutes: 3},
		{Others: 1000, memory: memory{Resident: 100 << 20}, Requests: map[string]int{"update leases": 300, "get discovery": 30}, Minutes: 3},
	}
	wants(t, write(t, r), "### At rest among CustomResourceDefinitions", "| 0 | 0 | 80 MiB | 1.00 | 100.0 | update leases 100.0 |",
		"| 1000 | 0 | 100 MiB | 1.25 | 110.0 | update leases 100.0, get discovery 10.0 |")
}
