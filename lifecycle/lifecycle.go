package lifecycle

import (
	"maps"
	"slices"
	"time"
)

// Result is what follows from a memory, a snapshot and a time.
type Result struct {
	Memory      Memory
	Transitions []Transition
	// WakeAt is when the same snapshot must be looked at again, if not zero.
	WakeAt time.Time
	// Missing names Revisions that have traffic and are not known well enough
	// to say what happened. The snapshot was not used: memory is as it was.
	Missing []string
}

// Baseline is the memory of a Service that was there before us. It announces
// nothing: not what is, only what will be.
func Baseline(s Snapshot) Result {
	b := builder{m: Memory{Seen: maps.Clone(s.Seen), Announced: true, Baselined: true}, s: s}
	if missing := b.missing(true); len(missing) > 0 {
		return Result{Missing: missing}
	}
	b.observe()
	b.m.learn(s.Revisions)
	b.inherited = true
	b.m.Deployed = s.Ready || s.EverReady
	if s.Route != nil {
		// Effective or not: it is the best that can be known of the past.
		b.setTraffic(s.Route.Traffic)
		b.m.URLs = s.Route.URLs
	}
	for kind := range s.Trouble {
		b.open(kind, &Episode{})
	}
	b.declared()
	b.m.forget()
	return Result{Memory: b.m}
}

// Next folds one snapshot, observed at the given time, into the memory.
func Next(rules Rules, m Memory, s Snapshot, at time.Time) Result {
	b := builder{rules: rules, m: m.clone(), s: s, at: m.after(at), now: at}
	if m.Removed {
		return Result{Memory: m}
	}
	if s.Gone {
		b.gone()
		return b.result()
	}
	if missing := b.missing(false); len(missing) > 0 {
		return Result{Memory: m, Missing: missing}
	}
	b.observe()
	b.created()
	b.revisions()
	b.cluster()
	b.release()
	b.judged()
	b.traffic()
	b.undeclared()
	b.deployed()
	b.published()
	b.trouble()
	b.m.forget()
	return b.result()
}

// builder carries one fold. Each of its steps is one row of what is announced.
type builder struct {
	rules Rules
	m     Memory
	s     Snapshot
	// at is the time that is journaled, now what the clock shows: by it is measured
	// how long something has lasted.
	at, now time.Time
	out     []Transition
	wake    time.Time
	// view is what the snapshot shows of the cluster, nil where it says nothing.
	view *Cluster
	// inherited says that a cluster which is declared now was there before us.
	inherited bool
}

func (b *builder) result() Result {
	b.over()
	return Result{Memory: b.m, Transitions: b.out, WakeAt: b.wake}
}

// missing names the Revisions that a decision would need. Informers have no
// common order: the Route may name a Revision before it is cached, or cached as
// Ready.
func (b *builder) missing(baseline bool) []string {
	r := b.s.Route
	if r == nil || (!r.Effective && !baseline) {
		return nil
	}
	var out []string
	for _, t := range r.Traffic {
		if b.s.Revisions[t.Revision].Ready || b.m.Revisions[t.Revision].Ready || b.s.Unheld[t.Revision] {
			continue
		}
		out = append(out, t.Revision)
	}
	return out
}

func (b *builder) observe() {
	if b.m.Seen == nil {
		b.m.Seen = map[string]string{}
	}
	maps.Copy(b.m.Seen, b.s.Seen)
	if b.s.Past {
		return
	}
	b.m.Generation = b.s.Generation
	b.m.Annotations = b.s.Annotations
	b.m.Labels = b.s.Labels
}

// emit numbers a transition and fills in what all of them have.
func (b *builder) emit(t Transition) Mark {
	b.m.Sequence++
	b.m.LastTime = b.at
	t.Sequence, t.Time = b.m.Sequence, b.at
	t.Generation = b.m.Generation
	t.Annotations = b.m.Annotations
	if t.Traffic == nil {
		t.Traffic = b.m.Traffic
	}
	if t.URLs == nil {
		t.URLs = b.m.URLs
	}
	if t.Chain == 0 && t.Revision != nil {
		t.Chain = b.chain(t.Revision.Name)
	}
	if t.Chain == 0 {
		t.Chain = t.Sequence
	}
	if t.aboutCluster() && b.m.Cluster != nil {
		b.m.Cluster.Sequence = t.Sequence
	}
	b.out = append(b.out, t)
	return Mark{Sequence: t.Sequence, Time: t.Time, Type: t.Type}
}

// milestone emits a transition that later ones point to. A canary that is
// withdrawn leaves the primary where it was: that one arrived earlier.
func (b *builder) milestone(t Transition) Mark {
	mark := b.emit(t)
	b.m.Last = &mark
	if t.Revision != nil && t.Reason != ReasonWithdrawn {
		b.arrived(t.Revision.Name, mark)
	}
	return mark
}

// newcomers arrived with this transition: they had no traffic before it.
func (b *builder) newcomers(previous, split []Share, mark Mark) {
	for _, s := range split {
		if share(previous, s.Revision) == 0 {
			b.arrived(s.Revision, mark)
		}
	}
}

func (b *builder) arrived(revision string, mark Mark) {
	if k, ok := b.m.Revisions[revision]; ok {
		k.Arrived = &mark
		b.m.Revisions[revision] = k
	}
}

func (b *builder) chain(revision string) int64 { return b.m.Revisions[revision].Chain }

// gone: removed, unless nobody was ever told that there was something.
func (b *builder) gone() {
	b.overtake(b.told(false))
	if b.m.Held != nil {
		b.flush()
	}
	if !b.m.ReadySince.IsZero() && !b.now.Before(b.readySince().Add(b.rules.Stabilization)) {
		b.deploy(b.told(false)) // it has waited for its cluster
	}
	for _, kind := range incidents {
		if e := b.m.Episodes[kind]; e != nil {
			b.resolve(kind, e, ReasonRemoved)
		}
	}
	b.dissolved(ReasonRemoved)
	if b.m.Deployed || b.m.Baselined {
		b.emit(Transition{Type: Removed, Revision: b.m.revision(b.m.Primary), Links: b.m.Last.link(LinkPath)})
	}
	b.m.Removed = true
}

// created is announced for every Service that came after us, also when it is
// Ready by the time we see it: that it was created is a fact all the same.
func (b *builder) created() {
	if b.m.Announced {
		return
	}
	b.m.Announced = true
	b.milestone(Transition{Type: Created})
}

func (b *builder) revisions() {
	b.inherited = b.m.redeclared(b.s.Revisions)
	for _, name := range b.m.learn(b.s.Revisions) {
		b.begin(name)
		b.emit(Transition{Type: RevisionReady, Revision: b.m.revision(name), Links: b.m.Last.link(LinkPath)})
	}
}

// begin opens the chain of a Revision's rollout with the next transition, if there
// is none yet.
func (b *builder) begin(name string) {
	k, ok := b.m.Revisions[name]
	if !ok || k.Chain > 0 {
		return
	}
	// The first Revision's rollout began with the Service itself.
	if k.Chain = b.m.Sequence + 1; !b.m.Deployed && b.m.Last != nil && b.m.Last.Type == Created {
		k.Chain = b.m.Last.Sequence
	}
	b.m.Revisions[name] = k
}

// deployed: Ready for the first time, and with traffic that says for what.
func (b *builder) deployed() {
	if b.m.Deployed {
		return
	}
	if b.s.Past {
		return
	}
	if !b.s.Ready || b.m.Primary == "" {
		b.m.ReadySince = time.Time{}
		return
	}
	if b.m.ReadySince.IsZero() {
		b.m.ReadySince = b.at
		b.begins(waitReady)
	}
	if due := b.readySince().Add(b.rules.Stabilization); b.now.Before(due) {
		b.wakeAt(due)
		return
	}
	told, wait := b.awaits(b.m.revision(b.m.Primary), b.readySince())
	if wait {
		return
	}
	b.deploy(told)
}

func (b *builder) readySince() time.Time {
	return b.since(waitReady, b.m.ReadySince, max(b.rules.Stabilization, b.rules.SettleWithin))
}

func (b *builder) deploy(told *ClusterTold) {
	b.m.Deployed = true
	b.m.ReadySince = time.Time{}
	b.milestone(Transition{Type: Deployed, Revision: b.m.revision(b.m.Primary), Links: b.m.Last.link(LinkPath), Cluster: told})
}

// published: reachable from outside, or under other names than before. It
// follows deployed: what is not deployed is not for anybody.
func (b *builder) published() {
	r := b.s.Route
	if !b.m.Deployed || r == nil || !r.Ready || b.s.URLsPast || !Changed(b.m.URLs, r.URLs) {
		return
	}
	b.m.URLs = r.URLs
	if len(r.URLs) == 0 {
		return // withdrawn from the outside; the specification has no word for it
	}
	b.emit(Transition{Type: Published, Revision: b.m.revision(b.m.Primary), Links: b.m.Last.link(LinkPath)})
}

func (b *builder) wakeAt(t time.Time) {
	if b.wake.IsZero() || t.Before(b.wake) {
		b.wake = t
	}
}

// Changed says whether two sets of URLs differ.
func Changed(a, b []string) bool {
	x, y := slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return !slices.Equal(slices.Compact(x), slices.Compact(y))
}
