// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/api/plural"
	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Observation is the result of one poll, before the tracker compares it with the last one.
type Observation struct {
	seen lifecycle.ClusterStatus
	// split and degraded describe a problem, or are nil.
	split, degraded *lifecycle.Trouble
	// starting holds pods that are not Ready. lagging holds Ready pods that are not members,
	// and members that join or leave; they are a problem if it takes too long.
	starting, lagging map[string]string
	// members holds the addresses of the members that are up.
	members []string
	// where maps "type/shard" to the member that holds the shard.
	where map[string]string
	// newest is the Revision with the highest generation that has pods.
	newest string
	// lacking is how many pods declare a sidecar and have none.
	lacking int
	// complete is false if any answer is missing, incomplete or contradictory.
	complete bool
}

// Observe merges the answers of the pods of one Service, by IP address. A pod without a management API counts as a
// member when it is Ready. refused is how many pods have the labels of the Service without belonging to it: if there
// are no others, the Service may own pods in a way that cannot be verified, and the state of its cluster is unknown.
func Observe(pods []*Pod, answers map[string]Answer, refused int) Observation {
	o := merge(pods, answers)
	if refused > 0 && len(pods) == 0 {
		o.seen.State = lifecycle.ClusterUnknown
		o.seen.Note = plural.Of(refused, "pod has", "pods have") +
			" the labels of the Service, but no pod belongs to it"
	}
	return o
}

func merge(pods []*Pod, answers map[string]Answer) Observation {
	o := Observation{
		starting: map[string]string{}, lagging: map[string]string{}, where: map[string]string{},
		complete: true,
	}
	live := slices.DeleteFunc(slices.Clone(pods), func(s *Pod) bool { return !s.Live() })
	if len(pods) > 0 {
		o.newest = Newest(pods).Revision
		o.seen.Runtime = string(Newest(pods).Declared.Runtime)
	}
	parts := map[string]*lifecycle.ClusterPart{}
	for _, s := range live {
		if parts[s.Revision] == nil {
			parts[s.Revision] = &lifecycle.ClusterPart{Revision: s.Revision}
		}
		if s.Ready {
			parts[s.Revision].Pods++
		}
	}
	switch {
	case len(live) == 0:
		o.seen.State = lifecycle.ClusterScaledToZero
		return o
	case Newest(live).Declared.ManagementPort == 0:
		o.byPods(live, parts)
	default:
		o.byAnswers(live, answers, parts)
	}
	o.withoutSidecar(live)
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		o.seen.Parts = append(o.seen.Parts, *parts[name])
	}
	slices.Sort(o.members)
	o.setState()
	return o
}

// Newest returns a pod of the Revision with the highest generation.
func Newest(all []*Pod) *Pod {
	return slices.MaxFunc(all, func(a, b *Pod) int { return int(min(max(a.Generation-b.Generation, -1), 1)) })
}

// Outcome says how the poll went: complete, partial (an answer is missing, incomplete or contradictory), or unanswered.
func (o Observation) Outcome() string {
	switch {
	case o.seen.State == lifecycle.ClusterUnknown:
		return "unanswered"
	case !o.complete:
		return "partial"
	}
	return "complete"
}

// Whole reports whether all members answered and form one cluster, so that a plan can be made.
func (o Observation) Whole() bool { return o.complete && o.split == nil && len(o.members) > 0 }

// LackSidecar returns how many pods declare a sidecar and have none.
func (o Observation) LackSidecar() int { return o.lacking }

// setState derives the state; the worst one wins.
func (o *Observation) setState() {
	with := 0
	for _, p := range o.seen.Parts {
		if p.Members > 0 {
			with++
		}
	}
	switch {
	case o.seen.State != "":
	case o.split != nil:
		o.seen.State, o.seen.Note = lifecycle.ClusterIsSplit, o.split.Message
	case with == 0:
		o.seen.State = lifecycle.ClusterForming
	case o.degraded != nil:
		o.seen.State, o.seen.Note = lifecycle.ClusterDegraded, o.degraded.Message
	case with > 1:
		o.seen.State = lifecycle.ClusterUpgrading
	default:
		o.seen.State = lifecycle.ClusterReady
	}
}

// byPods handles runtimes without a management API: a Ready pod is a member. The
// Kubernetes provider of protoactor-go also labels the pods of members.
func (o *Observation) byPods(live []*Pod, parts map[string]*lifecycle.ClusterPart) {
	labelled := slices.ContainsFunc(live, func(s *Pod) bool { return s.MemberID != "" })
	clusters := map[string][]string{}
	for _, s := range live {
		if !s.Ready {
			o.starting[string(s.UID)] = "pod " + s.Name + " is not Ready"
			continue
		}
		if labelled && s.MemberID == "" {
			o.lagging[string(s.UID)] = "pod " + s.Name + " is Ready, but is not a member"
			continue
		}
		parts[s.Revision].Members++
		o.members = append(o.members, string(s.UID)+s.MemberID)
		name := s.ClusterName
		if !slices.Contains(clusters[name], s.Revision) {
			clusters[name] = append(clusters[name], s.Revision)
		}
	}
	if labelled && len(clusters) > 1 {
		o.split = &lifecycle.Trouble{Reason: ClusterNamesDiffer, Message: fmt.Sprintf(
			"the pods are members of %d clusters: %s; the cluster must have the same name in all Revisions", len(clusters),
			named(slices.Sorted(maps.Keys(clusters))),
		)}
	}
}

// byAnswers handles runtimes with a management API. All members must answer, and all pods that may be one: a pod that
// is not Ready, and that none of those who answer knows, has not joined, and holds no shard. It may never start.
func (o *Observation) byAnswers(live []*Pod, answers map[string]Answer, parts map[string]*lifecycle.ClusterPart) {
	heard, listed := map[string]Members{}, map[string]bool{}
	for _, s := range live {
		if a, asked := answers[s.IP]; asked && a.Members.SelfNode != "" {
			heard[s.IP] = a.Members
			for _, m := range a.Members.Members {
				listed[host(m.Node)] = listed[host(m.Node)] || m.Status != "Removed"
			}
		}
	}
	silent, first := 0, error(nil)
	for _, s := range live {
		a, asked := answers[s.IP]
		if (!asked || a.Err != nil) && (s.Ready || listed[s.IP] || len(heard) == 0) {
			silent, first = silent+1, a.Err
		}
	}
	if silent > 0 {
		o.complete = false
		o.seen.Note = fmt.Sprintf("%d of %s did not answer completely", silent, plural.Of(len(live), "pod", "pods")) +
			because(first, Newest(live).Declared.Runtime)
	}
	if len(heard) == 0 {
		o.seen.State = lifecycle.ClusterUnknown
		return
	}
	clusters := partitions(heard)
	o.split = partitionTrouble(clusters, live)
	var main partition
	for _, c := range clusters {
		if len(c.up) > len(main.up) {
			main = c
		}
	}
	maps.Copy(o.lagging, main.moving)
	for _, s := range live {
		switch up := main.up[s.IP]; {
		case up:
			parts[s.Revision].Members++
			o.members = append(o.members, s.IP)
		case s.Ready:
			o.lagging[s.IP] = "pod " + s.Name + " is Ready, but is not a member"
		default:
			o.starting[s.IP] = "pod " + s.Name + " has not joined"
		}
	}
	if len(main.unreachable) > 0 {
		o.degraded = &lifecycle.Trouble{
			Reason:  MembersUnreachable,
			Message: "members that others cannot reach: " + named(main.unreachable),
		}
	}
	o.shards(live, answers, parts)
}

// withoutSidecar handles pods that lack the sidecar that they declare. This is known without any answer.
func (o *Observation) withoutSidecar(live []*Pod) {
	var lacking []string
	for _, s := range live {
		if s.LacksSidecar() {
			lacking = append(lacking, s.Name)
		}
	}
	if len(lacking) == 0 {
		return
	}
	slices.Sort(lacking)
	o.complete, o.lacking = false, len(lacking)
	o.degraded = &lifecycle.Trouble{Reason: SidecarMissing, Message: fmt.Sprintf(
		"container %s is missing in %d of %s, whose requests are not sharded: %s; pods get it if their namespace has the "+
			"label knative-cdevents.dev/sidecar=enabled when they are made: add the label, and delete these pods",
		v1alpha1.SidecarContainer, len(lacking), plural.Of(len(live), "pod", "pods"), named(lacking),
	)}
	if o.seen.State == lifecycle.ClusterUnknown {
		o.seen.State, o.seen.Note = lifecycle.ClusterDegraded, o.degraded.Message
	}
}

// shards records which member holds each shard. If two members claim the same shard, it is
// being moved and the observation is incomplete.
func (o *Observation) shards(live []*Pod, answers map[string]Answer, parts map[string]*lifecycle.ClusterPart) {
	count, known := map[string]int{}, false
	for _, s := range live {
		for entityType, held := range answers[s.IP].Shards {
			for _, id := range held {
				key := entityType + "/" + id
				if had, twice := o.where[key]; twice && had != s.IP {
					o.complete = false
				}
				known = true
				o.where[key] = s.IP
				count[s.Revision]++
			}
		}
	}
	if !known || !o.complete {
		return // after an empty or partial answer the counts are unknown, not zero
	}
	for name, p := range parts {
		n := count[name]
		p.Shards = &n
	}
}

// because formats an error as the end of a sentence. It omits what differs on each poll.
func because(err error, r v1alpha1.Runtime) string {
	switch {
	case err == nil:
		return ""
	case r == v1alpha1.RuntimeSidecar:
		return ": the sidecar does not answer; the log of the container " + v1alpha1.SidecarContainer + " says why, or that of " +
			v1alpha1.ProxyQueueProxy + " if the sidecar is a part of it"
	case errors.Is(err, ErrNoRoute) && (r == v1alpha1.RuntimeProtoActor || r == v1alpha1.RuntimeCustom):
		return ": the management port does not serve /cluster/members; check that it is the port where the application serves its members and shards"
	case errors.Is(err, ErrNoRoute):
		return ": the management port does not serve /cluster/members; check that the cluster-http module is on the class path of the application"
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err // without our own port, which differs on each poll
	}
	return ": " + brief(err.Error())
}

// maxNote limits the quoted part of an error, in bytes.
const maxNote = 256

// brief also drops invalid UTF-8, which pods may send.
func brief(s string) string {
	return sanitize.Truncate(sanitize.WithoutCredentials(strings.ToValidUTF8(s, "")), maxNote)
}

// host returns the host of an address such as "pekko://shop@10.0.0.7:25520". Java writes IPv6 addresses out in full,
// such as fd00:0:0:0:0:0:0:7, with brackets or without; Kubernetes does not.
func host(address string) string {
	_, at, found := strings.Cut(address, "@")
	if !found {
		at = address
	}
	name := at
	if i := strings.LastIndexByte(at, ':'); i >= 0 && !strings.HasSuffix(at, "]") {
		name = at[:i]
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if ip, err := netip.ParseAddr(name); err == nil {
		return ip.String()
	}
	return name
}
