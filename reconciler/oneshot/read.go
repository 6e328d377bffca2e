// SPDX-License-Identifier: Apache-2.0

package oneshot

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	servingv1beta1 "knative.dev/serving/pkg/apis/serving/v1beta1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source"
)

// seen is what was read for a look.
type seen struct {
	settings Settings
	kind     *service.Kind
	// served is false if Knative Serving is not installed.
	served  bool
	entries []*v1alpha1.CDEventSubject
	sources source.Lister
	// parts are what belongs to the Service.
	parts [len(partsOf)]found
	// deleted are the sources that have a pending event in the entries, and do not exist.
	deleted map[types.UID]bool
}

// read reads a Service with everything that belongs to it, and its entries in the ledger.
func (c *Core) read(ctx context.Context, of types.NamespacedName) (seen, error) {
	s, caches := seen{sources: newSources()}, newCaches()
	work := []func() error{
		func() (err error) { s.settings, err = c.Settings(ctx); return err },
		func() (err error) { s.entries, err = c.entriesOf(ctx, of); return err },
		func() error { return c.readSources(ctx, of.Namespace, s.sources.Indexer) },
	}
	for i, read := range partsOf {
		work = append(work, func() (err error) { s.parts[i], err = read(ctx, c, of); return err })
	}
	if err := parallel(c.Parallel, work); err != nil {
		return s, err
	}
	s.kind = c.newKind(ctx, s.settings)
	if s.served = !slices.ContainsFunc(s.parts[:], func(f found) bool { return f.unserved }) || s.kind.Served(); s.served {
		for i, f := range s.parts {
			if f.unserved {
				return s, fmt.Errorf("reading %s: %w", of, errStarting)
			}
			for _, o := range f.objects {
				if err := keep(s.kind, caches[i], o); err != nil {
					return s, err
				}
			}
		}
		s.kind.Use(caches, func() string { return s.parts[domains].version })
	}
	var err error
	s.deleted, err = c.deletedSources(ctx, of.Namespace, s)
	return s, err
}

func newSources() source.Lister {
	return source.Lister{Indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, client.SourceIndexers())}
}

func newCaches() []cache.Indexer {
	caches := make([]cache.Indexer, len(partsOf))
	for i := range caches {
		caches[i] = cache.NewIndexer(cache.MetaNamespaceKeyFunc, service.Indexers())
	}
	return caches
}

func (c *Core) newKind(ctx context.Context, s Settings) *service.Kind {
	return service.NewKind(c.Serving, cdevents.CarriedAnnotations(), &presence{ctx: ctx, installed: c.Installed}, s)
}

// errStarting says that the kinds of Serving are not served, although their definitions exist.
var errStarting = errors.New("the kinds of Knative Serving are not served at the moment: the API server is starting")

func keep(kind *service.Kind, in cache.Indexer, o any) error {
	projected, err := kind.Project(o)
	if err != nil {
		return fmt.Errorf("reading what belongs to a Service: %w", err)
	}
	if err := in.Add(projected); err != nil {
		return fmt.Errorf("keeping what belongs to a Service: %w", err)
	}
	return nil
}

// superseded reports whether something has changed since it was read. A look that writes something must not be the last
// one then: another one may have read the newer state meanwhile, and have found nothing to write, because the ledger
// said the same before this one wrote. Revisions take no part, because none becomes what it was before.
func (c *Core) superseded(ctx context.Context, of types.NamespacedName, s seen) (bool, error) {
	now := s.parts
	var work []func() error
	for i, read := range partsOf {
		if i != revisions {
			work = append(work, func() (err error) { now[i], err = read(ctx, c, of); return err })
		}
	}
	err := parallel(c.Parallel, work)
	same := func(a, b found) bool { return slices.Equal(a.versions(), b.versions()) }
	return !slices.EqualFunc(now[:], s.parts[:], same), err
}

// found is what the API server has of one resource.
type found struct {
	objects []metav1.Object
	// version is that of a list.
	version string
	// unserved says that the API server does not know the resource.
	unserved bool
}

// versions are those of the objects, in the order of their UIDs.
func (f found) versions() []string {
	out := make([]string, 0, len(f.objects))
	for _, o := range f.objects {
		out = append(out, string(o.GetUID())+" "+o.GetResourceVersion())
	}
	slices.Sort(out)
	return out
}

// Some of the parts.
const (
	services  = 0
	revisions = 2
	domains   = 3
)

// partsOf read what belongs to a Service, in the order that service.Kind expects of its caches.
var partsOf = [...]func(ctx context.Context, c *Core, of types.NamespacedName) (found, error){
	func(ctx context.Context, c *Core, of types.NamespacedName) (found, error) {
		return one(c.Serving.ServingV1().Services(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{}))
	},
	func(ctx context.Context, c *Core, of types.NamespacedName) (found, error) {
		return one(c.Serving.ServingV1().Routes(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{}))
	},
	func(ctx context.Context, c *Core, of types.NamespacedName) (found, error) {
		list, err := c.Serving.ServingV1().Revisions(of.Namespace).List(ctx, metav1.ListOptions{
			LabelSelector: labels.SelectorFromSet(labels.Set{serving.ServiceLabelKey: of.Name}).String(),
		})
		if err != nil {
			return missing(err)
		}
		out := found{version: list.ResourceVersion}
		for i := range list.Items {
			out.objects = append(out.objects, &list.Items[i])
		}
		return out, nil
	},
	func(ctx context.Context, c *Core, of types.NamespacedName) (found, error) {
		list, err := c.Serving.ServingV1beta1().DomainMappings(of.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return missing(err)
		}
		out := found{version: list.ResourceVersion}
		for i := range list.Items {
			if o := &list.Items[i]; serviceOf(o) == of.Name {
				out.objects = append(out.objects, o)
			}
		}
		return out, nil
	},
}

// serviceOf names the Service that an object may belong to: service.Kind knows whether it does.
func serviceOf(o metav1.Object) string {
	switch o := o.(type) {
	case *servingv1.Revision:
		return o.Labels[serving.ServiceLabelKey]
	case *servingv1beta1.DomainMapping:
		return o.Spec.Ref.Name
	}
	return o.GetName() // Serving gives the Route of a Service its name
}

func one(o metav1.Object, err error) (found, error) {
	if apierrors.IsNotFound(err) {
		return found{}, nil // kind.Live knows whether that is so because the kind is not served
	}
	if err != nil {
		return found{}, fmt.Errorf("reading a Service and its Route: %w", err)
	}
	return found{objects: []metav1.Object{o}}, nil
}

func missing(err error) (found, error) {
	if apierrors.IsNotFound(err) {
		return found{unserved: true}, nil
	}
	return found{}, fmt.Errorf("listing the Revisions and DomainMappings of a Service: %w", err)
}

// keyOf is the key of a Service in the ledger.
func keyOf(of types.NamespacedName) ledger.Key {
	kind := (*service.Kind)(nil) // its names are those of all
	return ledger.KeyOf(v1alpha1.CDEventSubjectSpec{
		APIVersion: kind.APIVersion(), Kind: kind.Name(), Namespace: of.Namespace, Name: of.Name,
	})
}

// entriesOf reads the CDEventSubjects of all objects that have or had the name of a Service.
func (c *Core) entriesOf(ctx context.Context, of types.NamespacedName) ([]*v1alpha1.CDEventSubject, error) {
	want := keyOf(of)
	list, err := c.Subjects.List(ctx, metav1.ListOptions{FieldSelector: fields.Set{
		"spec.kind": want.Kind, "spec.namespace": want.Namespace, "spec.name": want.Name,
	}.AsSelector().String()})
	if err != nil {
		return nil, fmt.Errorf("listing the CDEventSubjects of Service %s: %w", of, err)
	}
	var out []*v1alpha1.CDEventSubject
	for i := range list.Items {
		if s := &list.Items[i]; ledger.KeyOf(s.Spec) == want {
			out = append(out, ledger.Lean(s))
		}
	}
	return out, nil
}

// readSources reads the sources that can receive events of a namespace.
func (c *Core) readSources(ctx context.Context, namespace string, to cache.Indexer) error {
	all := []string{c.SystemNamespace}
	if namespace != c.SystemNamespace {
		all = append(all, namespace)
	}
	for _, n := range all {
		list, err := c.Sources(ctx, n, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing the CDEventSources of namespace %s: %w", n, err)
		}
		for i := range list.Items {
			if err := to.Add(&list.Items[i]); err != nil {
				return fmt.Errorf("keeping CDEventSource %s/%s: %w", n, list.Items[i].Name, err)
			}
		}
	}
	return nil
}

// deletedSources finds the sources that had an event pending and are gone. It reads them again: an entry may be newer
// than the list of sources.
func (c *Core) deletedSources(ctx context.Context, namespace string, s seen) (map[types.UID]bool, error) {
	out := map[types.UID]bool{}
	for _, e := range s.entries {
		for _, j := range e.Status.Journal {
			for _, r := range j.Recipients {
				if s.sources.ByUID(r.Source) == nil {
					out[r.Source] = true
				}
			}
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	if err := c.readSources(ctx, namespace, s.sources.Indexer); err != nil {
		return nil, err
	}
	for uid := range out {
		if s.sources.ByUID(uid) != nil {
			delete(out, uid)
		}
	}
	return out, nil
}

// presence knows whether Knative Serving is installed. It asks when that matters.
type presence struct {
	ctx       context.Context //nolint:containedctx // the life of a look
	installed func(ctx context.Context, definitions ...string) (bool, error)
}

// Synced implements service.Presence.
func (*presence) Synced() bool { return true }

// Has implements service.Presence. If that cannot be found out, they may exist.
func (p *presence) Has(definitions ...string) bool {
	is, err := p.installed(p.ctx, definitions...)
	return err != nil || is
}
