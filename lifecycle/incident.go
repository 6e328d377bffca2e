package lifecycle

import "time"

// Incident names what is wrong with a Service. Each kind has its own limit, and
// comes and goes by itself.
type Incident string

// The kinds of incidents.
const (
	// Outage: the Service was deployed and is not routed to any more.
	Outage Incident = "outage"
	// FailedRollout: a new Revision does not become Ready. What was deployed
	// before may serve all the same.
	FailedRollout Incident = "failed-rollout"
	// ClusterTrouble: members of the stateful cluster do not reach each other, or
	// pods that are Ready are none.
	ClusterTrouble Incident = "cluster-degraded"
	// ClusterSplit: the pods form clusters that know nothing of each other. The
	// same entity may live in each, and their data may drift apart.
	ClusterSplit Incident = "cluster-split"
)

// splitAfter is how long a split must last. A cluster that has just been started
// may look like one, for seconds.
const splitAfter = 10 * time.Second

// incidents in the order in which they are looked at.
var incidents = []Incident{Outage, FailedRollout, ClusterSplit, ClusterTrouble}

// ofCluster says that the kind is about a stateful cluster.
func (i Incident) ofCluster() bool { return i == ClusterTrouble || i == ClusterSplit }

// aboutCluster says that a transition came from a look at the cluster alone.
func (t Transition) aboutCluster() bool {
	return t.Type.OfCluster() || t.Incident != nil && t.Incident.Kind.ofCluster()
}

// Trouble is what the Service itself says of an incident.
type Trouble struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Episode is trouble that was announced, or that was there before us. It lasts
// until a snapshot shows it no more.
type Episode struct {
	Since time.Time `json:"since,omitzero"`
	// Detected is the transition that announced it; nil where it was there before
	// us: then its end is no news either.
	Detected *Mark `json:"detected,omitempty"`
	// Revision is the one that it was announced with.
	Revision string `json:"revision,omitempty"`
}

// Told is what a transition says of its incident.
type Told struct {
	Kind Incident `json:"kind"`
	// Opened is the sequence number of the transition that announced it: it
	// tells the incidents of one Service apart.
	Opened int64 `json:"opened"`
	// Since is when it began.
	Since time.Time `json:"since"`
	Trouble
}

// limit is how long trouble must last to be an incident; 0 for never.
func (r Rules) limit(kind Incident) time.Duration {
	switch kind {
	case Outage:
		return r.OutageAfter
	case ClusterTrouble:
		return r.DegradedAfter
	case ClusterSplit:
		return splitAfter
	}
	return r.FailedRolloutAfter
}

// present is what a snapshot says of one kind; false where it says nothing.
func (b *builder) present(kind Incident) (now *Trouble, known bool) {
	if !kind.ofCluster() {
		return b.s.Trouble[kind], true
	}
	if b.view == nil || kind == ClusterTrouble && b.view.Trouble[ClusterSplit] != nil {
		return nil, false // of clusters that are split, none can be said to be whole
	}
	return b.view.Trouble[kind], true
}

// trouble announces what has lasted for longer than its limit, and its end.
func (b *builder) trouble() {
	if b.s.Past {
		return
	}
	for _, kind := range incidents {
		now, said := b.present(kind)
		known := b.m.Episodes[kind]
		switch {
		case !said:
		case kind == Outage && !b.m.Deployed:
			// What never worked cannot break down.
		case now == nil:
			delete(b.m.Waits, waitFor(kind))
			if known != nil {
				b.resolve(kind, known, "")
			}
		case known == nil:
			b.wait(kind, now)
		}
	}
}

// wait announces trouble once it has lasted for its limit.
func (b *builder) wait(kind Incident, now *Trouble) {
	limit := b.rules.limit(kind)
	if limit <= 0 {
		return
	}
	since := b.since(waitFor(kind), b.now, limit)
	if due := since.Add(limit); b.now.Before(due) {
		b.wakeAt(due)
		return
	}
	delete(b.m.Waits, waitFor(kind))
	b.detect(kind, since, *now)
}

func (b *builder) detect(kind Incident, since time.Time, why Trouble) {
	since = since.UTC().Truncate(time.Microsecond) // it is journaled from here on
	e := &Episode{Since: since}
	t := Transition{
		Type: IncidentDetected, Revision: b.troubled(kind), Links: b.m.Last.link(LinkPath),
		Incident: &Told{Kind: kind, Opened: b.m.Sequence + 1, Since: since, Trouble: why},
	}
	if kind.ofCluster() {
		t.Cluster = b.told(false)
	}
	if t.Revision != nil {
		e.Revision = t.Revision.Name
		b.begin(e.Revision) // it may never be Ready, and is part of its rollout all the same
	}
	mark := b.emit(t)
	e.Detected = &mark
	b.open(kind, e)
}

func (b *builder) open(kind Incident, e *Episode) {
	if b.m.Episodes == nil {
		b.m.Episodes = map[Incident]*Episode{}
	}
	b.m.Episodes[kind] = e
}

// resolve ends an episode. Only the end of what was announced is announced.
func (b *builder) resolve(kind Incident, e *Episode, reason string) {
	delete(b.m.Episodes, kind)
	if e.Detected == nil {
		return
	}
	t := Transition{
		Type: IncidentResolved, Reason: reason, Revision: b.m.revision(e.Revision), Links: e.Detected.link(LinkPath),
		Incident: &Told{Kind: kind, Opened: e.Detected.Sequence, Since: e.Since},
	}
	if b.chain(e.Revision) == 0 {
		t.Chain = e.Detected.Sequence // it was about no Revision, and is a chain of its own
	}
	b.emit(t)
}

// troubled is the Revision that an incident is about: the one that does not
// become Ready, or the one that is not reached.
func (b *builder) troubled(kind Incident) *Revision {
	if kind == Outage {
		return b.m.revision(b.m.Primary)
	}
	if kind.ofCluster() && b.view != nil {
		return b.member(b.view)
	}
	newest := b.m.newest()
	if newest.Name == "" || newest.Ready {
		return nil // there is none yet, or it was Ready before and is no more
	}
	return &newest.Revision
}
