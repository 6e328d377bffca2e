// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

func dataOf(t *testing.T, tr lifecycle.Transition) CustomData {
	t.Helper()
	var body struct {
		CustomData CustomData `json:"customData"`
	}
	if err := json.Unmarshal(render(t, profile(Version05), tr).Data(), &body); err != nil {
		t.Fatal(err)
	}
	return body.CustomData
}

func TestSubjectOfClusterEvents(t *testing.T) {
	for _, typ := range []lifecycle.Type{lifecycle.ClusterFormed, lifecycle.ClusterSettled, lifecycle.ClusterUnsettled, lifecycle.ClusterRebalanced, lifecycle.ClusterRemoved} {
		if got := render(t, profile(Version05), transitionOf(t, typ)).Subject(); got != "stateful-cluster/shop/cart" {
			t.Errorf("%s has subject %s", typ, got)
		}
	}
}

// An event that waited for a cluster says whether it had settled; one that did not wait does not.
func TestEventsThatWaitedSayWhetherTheClusterSettled(t *testing.T) {
	up := transitionOf(t, lifecycle.Upgraded)
	if d := dataOf(t, up); d.Settled != nil || d.Cluster != nil {
		t.Errorf("an ordinary Service: %+v", d)
	}
	for _, settled := range []bool{true, false} {
		up.Cluster = clusterOf(settled, lifecycle.ClusterUpgrading, lifecycle.RegimeFrozen, 2, 1)
		d := dataOf(t, up)
		if d.Settled == nil || *d.Settled != settled || len(d.Cluster.Members) != 2 || d.Cluster.Regime != "Frozen" || *d.Cluster.Members[0].Shards != 66 {
			t.Errorf("settled %v: %+v", settled, d)
		}
		if got := render(t, profile(Version05), up).Subject(); got != "service/shop/cart" {
			t.Errorf("subject is %s", got)
		}
	}
	up.Cluster.Parts = make([]lifecycle.ClusterPart, 100)
	if d := dataOf(t, up); len(d.Cluster.Members) != maxMembers || len(d.Notes) != 1 {
		t.Errorf("%d members, notes %v", len(d.Cluster.Members), d.Notes)
	}
	if d := dataOf(t, transitionOf(t, lifecycle.ClusterRemoved)); d.Settled != nil {
		t.Error("a removed cluster says whether it settled")
	}
}

func TestClusterIncidentsConform(t *testing.T) {
	for _, kind := range []lifecycle.Incident{lifecycle.ClusterSplit, lifecycle.ClusterTrouble} {
		for _, version := range []string{Version05, Version04} {
			for reason, typ := range map[string]lifecycle.Type{
				"": lifecycle.IncidentDetected, "over": lifecycle.IncidentResolved, lifecycle.ReasonUndeclared: lifecycle.IncidentResolved,
			} {
				tr := transitionOf(t, typ)
				if tr.Reason = reason; reason == "over" {
					tr.Reason = ""
				}
				tr.Incident = &lifecycle.IncidentDetails{Kind: kind, Opened: 3, Since: after(2), Trouble: lifecycle.Trouble{Reason: "Why", Message: "a \u2028 b\x00"}}
				tr.Cluster = clusterOf(false, lifecycle.ClusterDegraded, "", 1, 1)
				e := render(t, profile(version), tr)
				if err := conforms(version, e); err != nil {
					t.Errorf("%s %s: %v", kind, typ, err)
				}
				if data := string(e.Data()); !strings.Contains(data, "stateful cluster") || !strings.Contains(e.Subject(), fmt.Sprintf("/%s/", kind)) {
					t.Errorf("%s %s: %s", kind, typ, data)
				}
			}
		}
	}
}
