// SPDX-License-Identifier: Apache-2.0

package oneshot

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"knative.dev/serving/pkg/client/clientset/versioned"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// restless lists everything, and returns the Services that something may have to be done about. It also counts what is
// pending for each source.
//
// It runs a look on what lists have of a Service, with clients that refuse each request. So whatever is to be read,
// written or sent ends that look, and the Service is not at rest. What a list has may be old by then, but is never
// older than the sweep. The entries of the ledger come last: otherwise, somebody else could write, between both, what
// was true before, and what is true now would look as if it were known.
func (c *Core) restless(ctx context.Context, sources []*v1alpha1.CDEventSource) ([]types.NamespacedName, tallies,
	error,
) {
	counted, busy, resting := tallies{}, map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}
	now, listing := c.list(ctx, sources)
	err := c.entries(ctx, "", func(e *v1alpha1.CDEventSubject) {
		counted.add(e)
		of := types.NamespacedName{Namespace: e.Spec.Namespace, Name: e.Spec.Name}
		switch {
		case ledger.KeyOf(e.Spec) != keyOf(of):
		case listing == nil && now.rests(ctx, of, e):
			resting[of] = true
		default:
			busy[of] = true
		}
	})
	for of, parts := range now.parts {
		if len(parts[services]) > 0 && !resting[of] {
			busy[of] = true
		}
	}
	return inOrder(busy), counted, errors.Join(listing, err)
}

// snapshot is what lists have of all Services.
type snapshot struct {
	seen
	// core can neither read nor write.
	core *Core
	// parts are what service.Kind keeps of the objects: a few hundred bytes of each.
	parts  map[types.NamespacedName]*[len(partsOf)][]any
	caches []cache.Indexer
}

// list lists what belongs to Services. After an error, the parts are those that were listed.
func (c *Core) list(ctx context.Context, sources []*v1alpha1.CDEventSource) (*snapshot, error) {
	s := &snapshot{
		seen:  seen{sources: newSources(), served: true},
		parts: map[types.NamespacedName]*[len(partsOf)][]any{}, caches: newCaches(),
	}
	for _, o := range sources {
		if err := s.sources.Indexer.Add(o); err != nil {
			return s, fmt.Errorf("keeping CDEventSource %s/%s: %w", o.Namespace, o.Name, err)
		}
	}
	var err error
	if s.settings, err = c.Settings(ctx); err != nil {
		return s, err
	}
	if s.core, err = c.refusing(); err != nil {
		return s, err
	}
	s.kind = s.core.newKind(ctx, s.settings)
	v1, v1beta1, all := c.Serving.ServingV1(), c.Serving.ServingV1beta1(), metav1.NamespaceAll
	for i, list := range [len(partsOf)]func(metav1.ListOptions) (objects, error){
		func(o metav1.ListOptions) (objects, error) { return v1.Services(all).List(ctx, o) },
		func(o metav1.ListOptions) (objects, error) { return v1.Routes(all).List(ctx, o) },
		func(o metav1.ListOptions) (objects, error) { return v1.Revisions(all).List(ctx, o) },
		func(o metav1.ListOptions) (objects, error) { return v1beta1.DomainMappings(all).List(ctx, o) },
	} {
		err := pages(func(opts metav1.ListOptions) (metav1.ListInterface, error) {
			page, err := list(opts)
			if err != nil {
				found, err := missing(err)
				s.served = s.served && !found.unserved
				return &metav1.ListMeta{}, err
			}
			s.seen.parts[i].version = page.GetResourceVersion()
			return page, meta.EachListItem(page, func(o runtime.Object) error { return s.keep(i, o) })
		})
		if err != nil {
			return s, err
		}
	}
	s.kind.Use(s.caches, func() string { return s.seen.parts[domains].version })
	return s, nil
}

// objects are a page of a list.
type objects interface {
	runtime.Object
	metav1.ListInterface
}

func (s *snapshot) keep(part int, o runtime.Object) error {
	object, err := meta.Accessor(o)
	if err != nil {
		return fmt.Errorf("reading what belongs to a Service: %w", err)
	}
	projected, err := s.kind.Project(o)
	if err != nil {
		return fmt.Errorf("reading what belongs to a Service: %w", err)
	}
	of := types.NamespacedName{Namespace: object.GetNamespace(), Name: serviceOf(object)}
	if s.parts[of] == nil {
		s.parts[of] = &[len(partsOf)][]any{}
	}
	s.parts[of][part] = append(s.parts[of][part], projected)
	return nil
}

// rests reports whether a look at a Service would find nothing to do because of an entry of the ledger. What cannot be
// known from lists is something to do, and so is whatever is pending. A stateful cluster keeps the controller awake,
// which only a look that reads may do.
func (s *snapshot) rests(ctx context.Context, of types.NamespacedName, e *v1alpha1.CDEventSubject) bool {
	if !s.served {
		return false
	}
	parts := s.parts[of]
	if parts == nil {
		parts = &[len(partsOf)][]any{}
	}
	for i, c := range s.caches {
		if c.Replace(parts[i], "") != nil {
			return false
		}
	}
	with := s.seen
	with.entries = []*v1alpha1.CDEventSubject{ledger.Lean(e)}
	l := s.core.open(ctx, of, with)
	again, err := l.observe(ctx)
	switch {
	case err != nil, again > 0 && again <= patience, len(l.ledger.Backlogs()) > 0, l.kind.Declaration(of).Stateful:
		return false
	}
	return l.write(ctx) == nil
}

// refusing returns a core that can neither read nor write. It is asked nothing but whether it would.
func (c *Core) refusing() (*Core, error) {
	to := &rest.Config{Transport: refusal{}, QPS: -1}
	serving, err := versioned.NewForConfig(to)
	if err != nil {
		return nil, fmt.Errorf("making a client that refuses everything: %w", err)
	}
	ours, err := client.New(to)
	if err != nil {
		return nil, fmt.Errorf("making a client that refuses everything: %w", err)
	}
	o := c.Options
	o.Serving, o.Subjects, o.Metrics = serving, ours.CDEventSubjects(c.SystemNamespace), uncounted{c.Metrics}
	o.Baselines = ledger.Baselines{Client: ours.CDEventBaselines(c.SystemNamespace)}
	o.Namespace = once(o.Namespace)
	return &Core{Options: o}, nil
}

// once reads the labels of each namespace once.
func once(read func(context.Context, string) (map[string]string, bool, error),
) func(context.Context, string) (map[string]string, bool, error) {
	known := map[string]labelled{}
	return func(ctx context.Context, name string) (map[string]string, bool, error) {
		n, is := known[name]
		if !is {
			var err error
			if n.labels, n.exists, err = read(ctx, name); err != nil {
				return nil, false, err
			}
			known[name] = n
		}
		return n.labels, n.exists, nil
	}
}

// refusal answers no request.
type refusal struct{}

var errRefused = errors.New("lists do not decide this")

// RoundTrip implements http.RoundTripper.
func (refusal) RoundTrip(*http.Request) (*http.Response, error) { return nil, errRefused }

// uncounted counts no write that was refused on purpose.
type uncounted struct{ Metrics }

// Refused implements ledger.Metrics.
func (uncounted) Refused() {}
