// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// partition is a set of nodes that see each other. A healthy cluster is one partition, and
// a split cluster is several.
type partition struct {
	// up holds the hosts of members that are up.
	up map[string]bool
	// moving describes the members that join or leave, by address.
	moving map[string]string
	// unreachable holds sorted addresses.
	unreachable []string
}

// partitions merges the views of nodes that share a member. It skips nodes that have not
// joined.
func partitions(heard map[string]Members) []partition {
	var out []partition
	for _, ip := range slices.Sorted(maps.Keys(heard)) {
		seen := of(heard[ip])
		if len(seen.up) == 0 {
			continue
		}
		out = slices.DeleteFunc(out, func(other partition) bool {
			if !overlap(other.up, seen.up) {
				return false
			}
			seen.take(other)
			return true
		})
		out = append(out, seen)
	}
	return out
}

func of(m Members) partition {
	out := partition{up: map[string]bool{}, moving: map[string]string{}}
	for _, one := range m.Members {
		switch {
		case one.Up():
			out.up[host(one.Node)] = true
		case one.Status != "Removed":
			out.moving[one.Node] = "member " + brief(one.Node) + " is " + brief(one.Status)
		}
	}
	for _, u := range m.Unreachable {
		out.unreachable = append(out.unreachable, brief(u.Node))
	}
	slices.Sort(out.unreachable)
	return out
}

func (p *partition) take(other partition) {
	maps.Copy(p.up, other.up)
	maps.Copy(p.moving, other.moving)
	p.unreachable = append(p.unreachable, other.unreachable...)
	slices.Sort(p.unreachable)
	p.unreachable = slices.Compact(p.unreachable)
}

func overlap(a, b map[string]bool) bool {
	for name := range a {
		if b[name] {
			return true
		}
	}
	return false
}

// partitionTrouble describes a split cluster. If each Revision is a partition of its own,
// discovery selects pods by a label that differs per Revision, which is the default.
func partitionTrouble(all []partition, live []*Pod) *lifecycle.Trouble {
	if len(all) < 2 {
		return nil
	}
	byRevision := true
	taken := map[string]bool{}
	var said []string
	for _, p := range all {
		var pods, revisions []string
		for _, s := range live {
			if p.up[s.IP] {
				pods = append(pods, s.Name)
				revisions = append(revisions, s.Revision)
			}
		}
		slices.Sort(revisions)
		revisions = slices.Compact(revisions)
		byRevision = byRevision && len(revisions) == 1 && !taken[revisions[0]]
		for _, r := range revisions {
			taken[r] = true
		}
		said = append(said, "["+strings.Join(pods, " ")+"]")
	}
	slices.Sort(said)
	message := brief(fmt.Sprintf("the pods form %d separate clusters: %s", len(all), strings.Join(said, " ")))
	if !byRevision {
		return &lifecycle.Trouble{Reason: Split, Message: message}
	}
	return &lifecycle.Trouble{Reason: SplitByRevision, Message: message + ". " + remedy(Newest(live).Declared.Runtime)}
}

func remedy(r v1alpha1.Runtime) string {
	if r == v1alpha1.RuntimeProtoActor || r == v1alpha1.RuntimeCustom || r == v1alpha1.RuntimeSidecar {
		return "Each Revision forms its own cluster. Give the cluster the same name in all Revisions, and make members find the pods of all of them"
	}
	key := string(r) + ".discovery.kubernetes-api.pod-label-selector"
	if r == v1alpha1.RuntimeCloudstate {
		key = "akka.discovery.kubernetes-api.pod-label-selector (SELECTOR_LABEL of the sidecar)"
	}
	return "Each Revision forms its own cluster, because pods are discovered by a label that Knative sets per Revision, such as the default app=%s. Set " + key +
		` to "serving.knative.dev/service=%s" in all Revisions, and make the runtime replace %s with the name of the Service`
}
