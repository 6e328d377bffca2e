package stateful

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// island is a set of nodes that know of each other. A cluster is one island; a
// split one is several.
type island struct {
	// up holds the hosts of members that are up.
	up map[string]bool
	// moving are members on their way in or out, by address, with what is said of
	// them.
	moving map[string]string
	// unreachable are addresses, sorted.
	unreachable []string
}

// islands puts together the views of nodes that share a member. A node that is not
// in a cluster yet has no view.
func islands(heard map[string]Members) []island {
	var out []island
	for _, ip := range slices.Sorted(maps.Keys(heard)) {
		seen := of(heard[ip])
		if len(seen.up) == 0 {
			continue
		}
		out = slices.DeleteFunc(out, func(other island) bool {
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

func of(m Members) island {
	out := island{up: map[string]bool{}, moving: map[string]string{}}
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

func (i *island) take(other island) {
	maps.Copy(i.up, other.up)
	maps.Copy(i.moving, other.moving)
	i.unreachable = append(i.unreachable, other.unreachable...)
	slices.Sort(i.unreachable)
	i.unreachable = slices.Compact(i.unreachable)
}

func overlap(a, b map[string]bool) bool {
	for name := range a {
		if b[name] {
			return true
		}
	}
	return false
}

// apart says what is wrong where there is more than one island. Where each has
// the pods of one Revision, and none the same, discovery has selected them by a label that Knative
// gives another value in each Revision, and that is its default.
func apart(all []island, live []subject) *lifecycle.Trouble {
	if len(all) < 2 {
		return nil
	}
	byRevision := true
	taken := map[string]bool{}
	var said []string
	for _, i := range all {
		var pods, revisions []string
		for _, s := range live {
			if i.up[s.pod.IP] {
				pods = append(pods, s.pod.Name)
				revisions = append(revisions, s.pod.Revision)
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
		return &lifecycle.Trouble{Reason: "Split", Message: message}
	}
	return &lifecycle.Trouble{Reason: "SplitByRevision", Message: message + ". " + remedy(newest(live).declared.Runtime)}
}

func remedy(r v1alpha1.Runtime) string {
	key := string(r) + ".discovery.kubernetes-api.pod-label-selector"
	if r == v1alpha1.RuntimeCloudstate {
		key = "akka.discovery.kubernetes-api.pod-label-selector (SELECTOR_LABEL of the sidecar)"
	}
	return "Each Revision forms its own cluster, because pods are discovered by a label that Knative sets per Revision, such as the default app=%s. Set " + key +
		` to "serving.knative.dev/service=%s", and the name that stands for %s to the name of the Service, in all Revisions`
}
