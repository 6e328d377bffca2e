package main

import (
	"context"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/injection/sharedmain"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/observability/resource"
	"knative.dev/pkg/system"

	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/export"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
	canary "github.com/knative-cdevents/knative-cdevents/canary/settings"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/stateful"
)

// What every pod of Knative has beside the user's containers.
const (
	queueProxy     = "queue-proxy"
	entryPort      = 9091
	entryPath      = "/metrics"
	mostConnected  = 4096
	ownershipLimit = 5 * time.Second
	forgetEvery    = time.Minute
	lastPush       = 500 * time.Millisecond
)

// measure counts who handled what, and tells Prometheus.
func (p *process) measure(ctx context.Context, cmw configmap.Watcher) {
	store := canary.NewStore(logging.FromContext(ctx), system.Namespace(), cmw)
	p.scene = newScene(p.pods, p.services.Load, logging.FromContext(ctx).Warnw)
	books := attribution.NewBooks(p.scene.facts, time.Now)
	p.books = books
	p.gateMetrics = gate.NewMetrics(time.Now, func(namespace, service string) bool {
		return p.isLeaderFor(types.NamespacedName{Namespace: namespace, Name: service})
	})
	collector := prometheus.NewRegistry()
	must(ctx, "registering the metrics of canaries", collector.Register(export.NewCollector(books)))
	must(ctx, "registering the metrics of gates", collector.Register(p.gateMetrics))
	must(ctx, "registering the metrics of canaries and gates", prometheus.Register(collector))
	observability, err := sharedmain.GetObservabilityConfig(ctx)
	must(ctx, "reading config-observability", err)
	stop, err := export.Push(ctx, observability.Metrics, collector, resource.Default(component))
	must(ctx, "sending the metrics of canaries", err)
	runner := &scrape.Runner{
		Client: scrape.NewClient(mostConnected), Plan: p.scene, Sink: books, Leads: p.isLeaderFor,
		Settings: func() scrape.Settings { return store.Current().Scraping() },
	}
	p.running.Go(func() {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastPush)
		defer cancel()
		if err := stop(last); err != nil {
			logging.FromContext(ctx).Warnw("The last metrics of canaries were not sent", "error", err)
		}
	})
	p.running.Go(func() { runner.Run(ctx) })
	p.running.Go(func() { wait.UntilWithContext(ctx, func(context.Context) { p.scene.forget() }, forgetEvery) })
}

// podsOfServices are the pods that claim to belong to Services.
type podsOfServices interface {
	Synced() bool
	Of(service types.NamespacedName) []*stateful.Pod
	Dying(service types.NamespacedName) []*stateful.Pod
	Owned(ctx context.Context, pod *stateful.Pod) error
}

// scene tells the rooms that measure what the informers know.
type scene struct {
	pods    podsOfServices
	watched func() *observer.Observer
	warn    func(message string, keysAndValues ...any)

	mu sync.Mutex
	// owned are pods that were asked about: a pod that was proven to belong to its
	// Revision stays so, also while the API server does not answer and while its
	// owners are deleted before it. Otherwise it would seem to go and to come again.
	owned map[types.UID]bool
	// clusters are as they were seen last, by those who ask them.
	clusters map[types.NamespacedName]*lifecycle.Cluster
}

func newScene(pods podsOfServices, watched func() *observer.Observer, warn func(string, ...any)) *scene {
	return &scene{pods: pods, watched: watched, warn: warn, owned: map[types.UID]bool{}, clusters: map[types.NamespacedName]*lifecycle.Cluster{}}
}

// saw takes what was seen of a cluster, or that it is not looked at any more.
func (s *scene) saw(service types.NamespacedName, part observer.Part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := part.Value.(*lifecycle.Cluster); ok && c != nil {
		s.clusters[service] = c
		return
	}
	delete(s.clusters, service)
}

// cluster returns the parts of a Service's cluster, by Revision; none where nobody
// could be asked.
func (s *scene) cluster(service types.NamespacedName) map[string]lifecycle.ClusterPart {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]lifecycle.ClusterPart{}
	if c := s.clusters[service]; c != nil && c.State != lifecycle.ClusterUnknown {
		for _, part := range c.Parts {
			out[part.Revision] = part
		}
	}
	return out
}

var _ scrape.Plan = (*scene)(nil)

// Ready implements scrape.Plan.
func (s *scene) Ready() bool {
	ob := s.watched()
	return ob != nil && ob.Active() && s.pods.Synced()
}

// Services implements scrape.Plan.
func (s *scene) Services() []types.NamespacedName {
	if ob := s.watched(); ob != nil {
		return ob.Kind.Keys()
	}
	return nil
}

// proven returns those of the pods that belong to what they name for certain.
func (s *scene) proven(ctx context.Context, pods []*stateful.Pod) []*stateful.Pod {
	var out []*stateful.Pod
	for _, pod := range pods {
		s.mu.Lock()
		proven, asked := s.owned[pod.UID]
		s.mu.Unlock()
		if !proven {
			limited, cancel := context.WithTimeout(ctx, ownershipLimit)
			err := s.pods.Owned(limited, pod)
			cancel()
			proven = err == nil
			if !proven && !asked {
				s.warn("A pod is not measured, since it is not known to belong to the Revision that it names", "pod", pod.Namespace+"/"+pod.Name, "error", err)
			}
			s.mu.Lock()
			s.owned[pod.UID] = proven
			s.mu.Unlock()
		}
		if proven {
			out = append(out, pod)
		}
	}
	return out
}

// forget lets go of pods that are gone. It looks through all pods there are.
func (s *scene) forget() {
	alive := map[types.UID]bool{}
	for _, service := range s.Services() {
		for _, pod := range s.pods.Of(service) {
			alive[pod.UID] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid := range s.owned {
		if !alive[uid] {
			delete(s.owned, uid)
		}
	}
}

// Targets implements scrape.Plan: queue-proxy of every pod, and the application where
// the template says that it counts after the sharding.
func (s *scene) Targets(ctx context.Context, service types.NamespacedName) []scrape.Target {
	return targetsOf(s.proven(ctx, s.pods.Of(service)))
}

// Dying implements scrape.Plan.
func (s *scene) Dying(ctx context.Context, service types.NamespacedName) []scrape.Target {
	return targetsOf(s.proven(ctx, s.pods.Dying(service)))
}

func targetsOf(pods []*stateful.Pod) []scrape.Target {
	var out []scrape.Target
	for _, pod := range pods {
		ip, err := netip.ParseAddr(pod.IP)
		if err != nil || pod.HostNetwork || pod.Phase != corev1.PodRunning {
			continue // it has no address yet, or none of its own, or answers no more
		}
		at := scrape.Target{
			Pod: pod.UID, Entry: true, Path: entryPath, Address: netip.AddrPortFrom(ip, entryPort), Dying: !pod.Deleting.IsZero(),
		}
		out = append(out, at)
		// What is declared wrongly is told elsewhere; only what enters is read then.
		if d, declared, err := pod.Declared(); declared && err == nil && d.MetricsPort > 0 {
			at.Entry, at.Path, at.Runtime = false, d.MetricsPath, string(d.Runtime)
			at.Address = netip.AddrPortFrom(ip, uint16(d.MetricsPort)) //nolint:gosec // a declared port was checked
			out = append(out, at)
		}
	}
	return out
}

// facts of a Service, for attribution.
func (s *scene) facts(service types.NamespacedName) attribution.Facts {
	ob := s.watched()
	if ob == nil {
		return attribution.Facts{}
	}
	subject := ob.Kind.Compose(ob.Kind.Cached(service))
	if subject == nil {
		return attribution.Facts{}
	}
	var f attribution.Facts
	timeouts := map[types.UID]time.Duration{}
	pods := s.proven(context.Background(), s.pods.Of(service))
	// As long as one Revision's requests make more calls, what entered in all of them
	// says nothing of what was called.
	f.OneCall = len(pods) > 0
	for _, pod := range pods {
		f.Pods = append(f.Pods, podFacts(pod))
		d, _, err := pod.Declared()
		f.OneCall = f.OneCall && err == nil && d.OneCall
		timeouts[pod.RevisionUID] = pod.Grace
	}
	required := map[string]float64{}
	route := subject.Snapshot.Route
	if route != nil {
		for _, share := range route.Traffic {
			required[share.Revision] += float64(share.Percent) / 100
		}
	}
	parts := s.cluster(service)
	for name, r := range subject.Snapshot.Revisions {
		// The Configuration of a Service has the Service's name.
		out := attribution.Revision{
			UID: types.UID(r.UID), Name: name, Configuration: service.Name, Stateful: r.Stateful != "", Misdeclared: r.Misdeclared != "",
			Timeout: timeouts[types.UID(r.UID)],
		}
		if route != nil && route.Effective {
			share := required[name]
			out.Required = &share
		}
		if part, ok := parts[name]; ok {
			members := float64(part.Members)
			out.ClusterMembers = &members
			if part.Shards != nil {
				shards := float64(*part.Shards)
				out.ClusterShards = &shards
			}
		}
		f.Revisions = append(f.Revisions, out)
	}
	return f
}

func podFacts(pod *stateful.Pod) attribution.Pod {
	out := attribution.Pod{UID: pod.UID, Revision: pod.RevisionUID, Ready: pod.Ready, Failed: pod.Phase == corev1.PodFailed}
	users := 0
	for _, c := range pod.Containers {
		if c.Name == queueProxy {
			continue
		}
		users++
		out.Restarts += int(c.Restarts)
		out.OOMKilled = out.OOMKilled || c.Last.OOMKilled()
		out.Incarnation = strconv.Itoa(int(c.Restarts))
	}
	if users != 1 {
		out.Incarnation = "" // which of them counts is not known
	}
	return out
}
