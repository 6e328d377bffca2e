// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
)

// StatefulPrefix is the prefix of the annotations with which the template of a Knative Service
// declares that its pods are a stateful cluster. Annotations of the template reach each Revision
// and pod; those of the Service itself do not.
const StatefulPrefix = "stateful.knative-cdevents.dev/"

// The annotations that declare a stateful cluster.
const (
	// AnnotationRuntime names the Runtime. Without it, nothing is declared.
	AnnotationRuntime = StatefulPrefix + "runtime"
	// AnnotationMetricsPort and AnnotationMetricsPath say where each pod exposes its metrics from
	// after the sharding.
	AnnotationMetricsPort = StatefulPrefix + "metrics-port"
	AnnotationMetricsPath = StatefulPrefix + "metrics-path"
	// AnnotationManagementPort is the port of the runtime's management API. Runtimes without an API of
	// their own may serve the same two routes: see docs/placement.md.
	AnnotationManagementPort = StatefulPrefix + "management-port"
	// AnnotationEntityTypes lists the sharded entity types, separated by commas.
	AnnotationEntityTypes = StatefulPrefix + "entity-types"
	// AnnotationShards is the number of shards of each entity type.
	AnnotationShards = StatefulPrefix + "shards"
	// AnnotationCallsPerRequest is "1" if every request makes exactly one call of one entity. Then
	// requests that entered but that no entity started to handle can be counted.
	AnnotationCallsPerRequest = StatefulPrefix + "calls-per-request"
	// AnnotationPlacement asks for a plan of which member owns each shard: a PlacementMode.
	AnnotationPlacement = StatefulPrefix + "placement"

	// AnnotationProxy names the sidecar in ConfigMap config-sidecars that the injector puts into the pods. The runtime
	// says how the members that it makes are observed. For RuntimeSidecar, it may be ProxyQueueProxy.
	AnnotationProxy = StatefulPrefix + "proxy"

	// AnnotationKey says where the key of a request is, for RuntimeSidecar. clients/sidecar/key.Parse reads it.
	AnnotationKey = StatefulPrefix + "key"
	// AnnotationPatience is how long a request waits for a shard that moves.
	AnnotationPatience = StatefulPrefix + "patience"
	// AnnotationStrict is "true" if a member that is cut off must refuse requests rather than risk a second owner.
	AnnotationStrict = StatefulPrefix + "strict"
	// AnnotationHooks is "false" if the application must not be told which shards it gets and gives away.
	AnnotationHooks = StatefulPrefix + "hooks"
	// AnnotationResources has the requests and limits of the sidecar's container, in YAML.
	AnnotationResources = StatefulPrefix + "resources"
)

// ProxyQueueProxy is the value of AnnotationProxy with which the sidecar is not a container of its own, but a part of
// queue-proxy.
const ProxyQueueProxy = "queue-proxy"

// annotation is one that exists; ofSidecar: only RuntimeSidecar has it.
type annotation struct {
	name      string
	ofSidecar bool
}

// annotations lists all of them.
var annotations = []annotation{
	{AnnotationRuntime, false},
	{AnnotationMetricsPort, false},
	{AnnotationMetricsPath, false},
	{AnnotationManagementPort, false},
	{AnnotationEntityTypes, false},
	{AnnotationShards, false},
	{AnnotationCallsPerRequest, false},
	{AnnotationPlacement, false},
	{AnnotationProxy, false},
	{AnnotationKey, true},
	{AnnotationPatience, true},
	{AnnotationStrict, true},
	{AnnotationHooks, true},
	{AnnotationResources, true},
}

// Runtime is the software that forms a stateful cluster.
type Runtime string

// The known runtimes. RuntimeProtoActor and RuntimeCustom are observed only through their pods, unless
// the declaration names a management port.
const (
	RuntimeAkka       Runtime = "akka"
	RuntimePekko      Runtime = "pekko"
	RuntimeCloudstate Runtime = "cloudstate"
	RuntimeProtoActor Runtime = "protoactor"
	RuntimeCustom     Runtime = "custom"
	// RuntimeSidecar is clients/sidecar, which makes any container that speaks HTTP a member.
	RuntimeSidecar Runtime = "sidecar"
)

// runtimes lists the runtimes in the order of messages.
var runtimes = []Runtime{RuntimeAkka, RuntimePekko, RuntimeCloudstate, RuntimeProtoActor, RuntimeCustom, RuntimeSidecar}

// Runtimes returns the known runtimes, in the order in which messages list them.
func Runtimes() []Runtime { return slices.Clone(runtimes) }

// Limits on a declaration. MaxEntityTypes limits metric labels; MaxShards is more than any of the
// runtimes is used with.
const (
	MaxEntityTypes = 16
	MaxShards      = 65536
	maxEntityType  = 128
	maxMetricsPath = 256
)

// SidecarContainer is the name of the sidecar's container in a pod.
const SidecarContainer = "stateful-sidecar"

// The ports of the sidecar: where queue-proxy sends requests, what the controller and kubelet ask for, and where other
// members connect.
const (
	SidecarPort           = 8480
	SidecarManagementPort = 8481
	SidecarPeerPort       = 8482
)

// Stateful is a template's declaration, with the defaults of its runtime.
//
// +kubebuilder:object:generate=false
type Stateful struct {
	Runtime Runtime
	// MetricsPort is 0 if unknown: then no metrics are read.
	MetricsPort int
	// MetricsPath starts with a slash.
	MetricsPath string
	// ManagementPort is 0 if no management API is known.
	ManagementPort int
	// EntityTypes are sorted. Without any, shards cannot be queried.
	EntityTypes []string
	// Shards is the number of shards of each entity type; 0 if unknown.
	Shards int
	// OneCall: every request makes one call of one entity.
	OneCall bool
	// Placement is empty if no plan is asked for.
	Placement PlacementMode
	// Sidecar is nil for all runtimes but RuntimeSidecar.
	Sidecar *Sidecar
	// Proxy names a sidecar in ConfigMap config-sidecars; empty if there is none.
	Proxy string
}

// defaults holds the defaults of each runtime's own configuration.
var defaults = map[Runtime]Stateful{
	// akka.management.http.port, Kamon's Prometheus reporter, number-of-shards.
	RuntimeAkka: {MetricsPort: 9095, ManagementPort: 8558, Shards: 1000},
	// pekko.management.http.port, and as for Akka.
	RuntimePekko: {MetricsPort: 9095, ManagementPort: 7626, Shards: 1000},
	// Cloudstate's proxy exposes metrics on 9090 by default, which queue-proxy uses in a Knative
	// pod; its Go operator sets 9099.
	RuntimeCloudstate: {MetricsPort: 9099, ManagementPort: 8558, Shards: 100},
	RuntimeProtoActor: {},
	RuntimeCustom:     {},
	// The sidecar's own, in clients/sidecar. Its members have shares of their own only if the controller lists them.
	RuntimeSidecar: {
		MetricsPort: SidecarManagementPort, ManagementPort: SidecarManagementPort, EntityTypes: []string{"Key"},
		Shards: 100, Placement: PlacementObserve,
	},
}

// queueProxy lists the ports that Knative's sidecar uses in every pod.
var queueProxy = []int{8012, 8013, 8022, 8112, 9090, 9091}

// UsedByQueueProxy reports whether Knative's sidecar uses a port in every pod.
func UsedByQueueProxy(port int) bool { return slices.Contains(queueProxy, port) }

// CheckApplicationPort returns an error if the container of a pod with a sidecar cannot listen at a port.
func CheckApplicationPort(port int) error {
	var owner string
	switch {
	case port < 1 || port > 65535:
		return fmt.Errorf("the container's port is %d; it must be from 1 to 65535", port)
	case slices.Contains(queueProxy, port):
		owner = "queue-proxy uses"
	case port >= SidecarPort && port <= SidecarPeerPort:
		owner = "the sidecar uses"
	default:
		return nil
	}
	return fmt.Errorf("the container's port is %d, which %s in this pod; use another port, such as 8080", port, owner)
}

// ParseStateful reads the declaration from the annotations of a template, a Revision or a pod. It
// returns false if there is none. An error names each wrong annotation, its value and what is
// allowed.
func ParseStateful(annotations map[string]string) (s Stateful, declared bool, err error) {
	var given []string
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if strings.HasPrefix(name, StatefulPrefix) {
			given = append(given, name)
		}
	}
	if len(given) == 0 {
		return Stateful{}, false, nil
	}
	p := statefulParser{annotations: annotations}
	p.runtime()
	for _, name := range given {
		p.read(name)
	}
	if p.out.Runtime == RuntimeSidecar && !p.given(AnnotationKey) {
		p.errs = append(p.errs, fmt.Errorf("annotation %s is missing; say where the key of a request is, such as "+
			"header:X-User or path:/carts/{key}", AnnotationKey))
	}
	if err := errors.Join(p.errs...); err != nil {
		return Stateful{}, true, err
	}
	return p.out, true, nil
}

type statefulParser struct {
	annotations map[string]string
	out         Stateful
	errs        []error
}

func (p *statefulParser) wrong(name, right string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("annotation %s is %q; %s", name, sanitize.Truncate(p.annotations[name], 64),
		fmt.Sprintf(right, args...)))
}

func (p *statefulParser) runtime() {
	value, ok := p.annotations[AnnotationRuntime]
	r := Runtime(strings.TrimSpace(value))
	switch {
	case !ok:
		p.errs = append(p.errs,
			fmt.Errorf("annotation %s is missing; set it to one of %s, because the other annotations have no effect without it",
				AnnotationRuntime, known()))
	case !slices.Contains(runtimes, r):
		p.wrong(AnnotationRuntime, "it must be one of %s", known())
	}
	p.out = defaults[r]
	p.out.Runtime, p.out.MetricsPath, p.out.EntityTypes = r, "/metrics", slices.Clone(p.out.EntityTypes)
	if r == RuntimeSidecar {
		p.out.Sidecar = &Sidecar{Patience: defaultPatience, Hooks: true, Resources: defaultResources()}
	}
}

func known() string {
	names := make([]string, len(runtimes))
	for i, r := range runtimes {
		names[i] = string(r)
	}
	return strings.Join(names, ", ")
}

func (p *statefulParser) read(name string) {
	value := strings.TrimSpace(p.annotations[name])
	if !p.applies(name) {
		return
	}
	switch name {
	case AnnotationRuntime:
	case AnnotationMetricsPort:
		p.port(name, value, &p.out.MetricsPort)
	case AnnotationManagementPort:
		p.port(name, value, &p.out.ManagementPort)
	case AnnotationMetricsPath:
		if !strings.HasPrefix(value, "/") || len(value) > maxMetricsPath || strings.ContainsFunc(value, notInPath) {
			p.wrong(name, "it must be a path such as /metrics, with at most %d letters, digits and -._~/ and without a query",
				maxMetricsPath)
			return
		}
		p.out.MetricsPath = value
	case AnnotationEntityTypes:
		p.entityTypes(name, value)
	case AnnotationShards:
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > MaxShards {
			p.wrong(name, "it must be the number of shards of an entity type, from 1 to %d", MaxShards)
			return
		}
		p.out.Shards = n
	case AnnotationCallsPerRequest:
		if value != "1" {
			p.wrong(name, "it must be 1; remove the annotation if a request can make more or fewer calls than one")
			return
		}
		p.out.OneCall = true
	case AnnotationPlacement:
		p.placement(name, PlacementMode(value))
	case AnnotationProxy:
		p.proxy(name, value)
	case AnnotationKey:
		p.key(name, value)
	case AnnotationPatience:
		p.patience(name, value)
	case AnnotationStrict:
		p.flag(name, value, &p.out.Sidecar.Strict)
	case AnnotationHooks:
		p.flag(name, value, &p.out.Sidecar.Hooks)
	case AnnotationResources:
		p.resources(name, value)
	}
}

// applies reports whether an annotation exists, and whether this runtime has it.
func (p *statefulParser) applies(name string) bool {
	at := slices.IndexFunc(annotations, func(a annotation) bool { return a.name == name })
	ports := name == AnnotationManagementPort || name == AnnotationMetricsPort || name == AnnotationMetricsPath
	switch {
	case at < 0:
		p.wrong(name, "this annotation does not exist; did you mean %s?", nearest(name))
	case annotations[at].ofSidecar && p.out.Runtime != RuntimeSidecar:
		p.wrong(name, "only runtime %s has this annotation; remove it", RuntimeSidecar)
	case ports && p.out.Runtime == RuntimeSidecar:
		p.wrong(name, "the sidecar always uses port %d and path /metrics; remove the annotation", SidecarManagementPort)
	default:
		return true
	}
	return false
}

// nearest returns the annotation whose name has the fewest edits.
func nearest(name string) string {
	name = strings.TrimPrefix(sanitize.Truncate(name, maxEntityType), StatefulPrefix)
	edits := func(a annotation) int {
		return levenshtein.ComputeDistance(name, strings.TrimPrefix(a.name, StatefulPrefix))
	}
	return slices.MinFunc(annotations, func(a, b annotation) int { return cmp.Compare(edits(a), edits(b)) }).name
}

func (p *statefulParser) flag(name, value string, into *bool) {
	if value != "true" && value != "false" {
		p.wrong(name, "it must be true or false")
		return
	}
	*into = value == "true"
}

func (p *statefulParser) placement(name string, mode PlacementMode) {
	switch {
	case mode != PlacementEnforce && mode != PlacementObserve:
		p.wrong(name, "it must be %s or %s", PlacementEnforce, PlacementObserve)
	case p.out.Runtime == RuntimeCloudstate:
		p.wrong(name, "the proxy of runtime %s cannot follow a plan; remove the annotation", p.out.Runtime)
	case len(defaults[p.out.Runtime].EntityTypes) == 0 && !p.given(AnnotationEntityTypes):
		p.wrong(name, "set %s too, because shards are placed for each of these types", AnnotationEntityTypes)
	case defaults[p.out.Runtime].ManagementPort == 0 && !p.given(AnnotationManagementPort):
		p.wrong(name, "set %s too, because runtime %s has no default port where its members say which shards they hold",
			AnnotationManagementPort, p.out.Runtime)
	case defaults[p.out.Runtime].Shards == 0 && !p.given(AnnotationShards):
		p.wrong(name, "set %s too, because runtime %s has no default number of shards", AnnotationShards, p.out.Runtime)
	default:
		p.out.Placement = mode
	}
}

// given reports whether an annotation is set, be its value right or wrong.
func (p *statefulParser) given(name string) bool { return strings.TrimSpace(p.annotations[name]) != "" }

func (p *statefulParser) port(name, value string, into *int) {
	n, err := strconv.Atoi(value)
	switch {
	case err != nil || n < 1 || n > 65535:
		p.wrong(name, "it must be a port, from 1 to 65535")
	case slices.Contains(queueProxy, n):
		p.wrong(name, "queue-proxy uses this port in every Knative pod; use another port")
	default:
		*into = n
	}
}

func (p *statefulParser) entityTypes(name, value string) {
	var all []string
	for one := range strings.SplitSeq(value, ",") {
		one = strings.TrimSpace(one)
		if one == "" || len(one) > maxEntityType || strings.ContainsFunc(one, notInName) {
			p.wrong(name, "it must be a list of names, separated by commas, each with at most %d letters, digits and -._$",
				maxEntityType)
			return
		}
		all = append(all, one)
	}
	slices.Sort(all)
	most := MaxEntityTypes
	if p.out.Runtime == RuntimeSidecar {
		most = 1
	}
	if all = slices.Compact(all); len(all) > most {
		p.wrong(name, "it names %d types; runtime %s allows at most %d", len(all), p.out.Runtime, most)
		return
	}
	p.out.EntityTypes = all
}

func notInName(r rune) bool { return !alphanumeric(r) && !strings.ContainsRune("-._$", r) }
func notInPath(r rune) bool { return !alphanumeric(r) && !strings.ContainsRune("-._~/", r) }

func alphanumeric(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}
