// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/knative-cdevents/knative-cdevents/clients/sidecar/key"
)

// The limits of AnnotationPatience, and its default. clients/sidecar has the same.
const (
	minPatience     = time.Millisecond
	maxPatience     = 10 * time.Minute
	defaultPatience = 10 * time.Second
)

// Limits on what a declaration of a sidecar has, in bytes.
const (
	maxKeyRule   = 256
	maxResources = 1024
)

// Sidecar is what only RuntimeSidecar has.
//
// +kubebuilder:object:generate=false
type Sidecar struct {
	// Key is a rule of clients/sidecar/key.Parse.
	Key string
	// Patience is how long a request waits for a shard that moves.
	Patience      time.Duration
	Strict, Hooks bool
	// InQueueProxy: it is a part of queue-proxy, and not a container of its own.
	InQueueProxy bool
	// Resources are those of its container; without effect if InQueueProxy.
	Resources corev1.ResourceRequirements
}

// defaultResources returns the resources of a sidecar whose template says nothing of them. The limit is an estimate for
// its 10,000 open requests: 500 take 15 MiB of heap, with their clients and the container.
func defaultResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("25m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
	}
}

func (p *statefulParser) key(name, value string) {
	if len(value) > maxKeyRule {
		p.wrong(name, "it has %d bytes; at most %d are allowed", len(value), maxKeyRule)
		return
	}
	if _, err := key.Parse(value); err != nil {
		p.wrong(name, "%v", err)
		return
	}
	p.out.Sidecar.Key = value
}

func (p *statefulParser) proxy(name, value string) {
	switch {
	case value == ProxyQueueProxy && p.out.Runtime == RuntimeSidecar:
		p.out.Sidecar.InQueueProxy = true
	case p.out.Runtime == RuntimeSidecar:
		p.wrong(name, "runtime %s has its own; remove the annotation, set it to %s, or name the runtime of that proxy", RuntimeSidecar,
			ProxyQueueProxy)
	case value == ProxyQueueProxy:
		p.wrong(name, "only runtime %s can be a part of %[2]s", RuntimeSidecar, ProxyQueueProxy)
	case len(validation.IsDNS1123Label(value)) > 0:
		p.wrong(name, "it must be the name of a sidecar in ConfigMap config-sidecars, such as akka-proxy")
	default:
		p.out.Proxy = value
	}
}

func (p *statefulParser) patience(name, value string) {
	d, err := time.ParseDuration(value)
	if err != nil || d < minPatience || d > maxPatience {
		p.wrong(name, "it must be a duration from %s to %s, such as %s", minPatience, maxPatience, defaultPatience)
		return
	}
	p.out.Sidecar.Patience = d
}

// resources takes what is given, and keeps the defaults of the rest.
func (p *statefulParser) resources(name, value string) {
	if p.out.Sidecar.InQueueProxy {
		p.wrong(name, "the sidecar is a part of queue-proxy, which has annotations of Knative Serving, such as "+
			"queue.sidecar.serving.knative.dev/memory-resource-limit; remove this one")
		return
	}
	var given struct {
		Requests corev1.ResourceList `json:"requests"`
		Limits   corev1.ResourceList `json:"limits"`
	}
	err := errors.New("it has more than 1024 bytes")
	if len(value) <= maxResources {
		err = yaml.UnmarshalStrict([]byte(value), &given)
	}
	out := &p.out.Sidecar.Resources
	if err == nil {
		err = errors.Join(merge(out.Requests, given.Requests, "requests"), merge(out.Limits, given.Limits, "limits"))
	}
	for of, limit := range out.Limits {
		request, asked := given.Requests[of]
		switch {
		case asked && request.Cmp(limit) > 0:
			err = errors.Join(err, fmt.Errorf("requests.%s is %s, which is more than the limit %s", of, &request, &limit))
		case !asked:
			if request, ok := out.Requests[of]; ok && request.Cmp(limit) > 0 {
				out.Requests[of] = limit
			}
		}
	}
	if err != nil {
		p.wrong(name, "it must have requests and limits of cpu, memory or ephemeral-storage, such as {limits: {memory: 1Gi}}: %v",
			err)
	}
}

// merge puts quantities that somebody gave in the place of others.
func merge(into, given corev1.ResourceList, in string) error {
	var errs []error
	for _, of := range slices.Sorted(maps.Keys(given)) {
		quantity := given[of]
		switch of {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
			if quantity.Sign() <= 0 {
				errs = append(errs, fmt.Errorf("%s.%s is %s; it must be more than 0", in, of, &quantity))
			}
			into[of] = quantity
		default:
			errs = append(errs, fmt.Errorf("%s.%s does not exist", in, of))
		}
	}
	return errors.Join(errs...)
}
