// SPDX-License-Identifier: Apache-2.0

// Package store is a stand-in for the API server's storage of CDEventSubjects and CDEventBaselines,
// for tests that need thousands of writes a second or a crash after each one.
//
// It behaves like the API server: resourceVersions increase over all objects, an update
// must be based on the current one, a create may fail with AlreadyExists, a delete may have
// preconditions, and creationTimestamps are whole seconds.
package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Store holds CDEventSubjects.
type Store struct {
	// Now returns the creationTimestamp of new objects.
	Now func() time.Time
	// Before is called before every request with its verb, and may fail it.
	Before func(verb, name string) error
	// After is called after a request succeeded. The caller receives its error although
	// the write has happened.
	After func(verb, name string) error

	mu      sync.Mutex
	version int64
	objects map[string]*v1alpha1.CDEventSubject
	// baselines are the CDEventBaselines. They are not watched.
	baselines map[string]*v1alpha1.CDEventBaseline
	writes    int
	// Wrote is called with every object that was written or deleted.
	Wrote func(o *v1alpha1.CDEventSubject, deleted bool)
	// changes is what a watch delivers, in order, since the start or the last Restore.
	changes []Change
}

// Change is one change that a watch delivers.
type Change struct {
	Object  *v1alpha1.CDEventSubject
	Deleted bool
}

// Changes returns the changes since one of them, by number. The caller must not change the objects.
func (s *Store) Changes(since int) []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.changes[since:])
}

// New returns an empty store.
func New() *Store {
	return &Store{
		Now: time.Now, version: 1, objects: map[string]*v1alpha1.CDEventSubject{},
		baselines: map[string]*v1alpha1.CDEventBaseline{},
	}
}

// NextVersion returns a new resourceVersion, for an object that is stored elsewhere.
func (s *Store) NextVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next()
}

// Version returns the newest resourceVersion.
func (s *Store) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strconv.FormatInt(s.version, 10)
}

func (s *Store) created() metav1.Time { return metav1.NewTime(s.Now().Truncate(time.Second)) }

func (s *Store) next() string {
	s.version++
	return strconv.FormatInt(s.version, 10)
}

// Writes counts creates, updates and deletes.
func (s *Store) Writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// All returns copies of all objects, by name.
func (s *Store) All() []*v1alpha1.CDEventSubject {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*v1alpha1.CDEventSubject, 0, len(s.objects))
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		out = append(out, s.objects[name].DeepCopy())
	}
	return out
}

// Names returns the names of all objects, in order.
func (s *Store) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.objects))
}

// Peek returns an object, or nil. The caller must not change it.
func (s *Store) Peek(name string) *v1alpha1.CDEventSubject {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[name]
}

// Has reports whether an object of that name exists.
func (s *Store) Has(name string) bool { return s.Peek(name) != nil }

// Remove deletes an object without preconditions.
func (s *Store) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next()
	if o := s.objects[name]; o != nil {
		s.changes = append(s.changes, Change{Object: o, Deleted: true})
	}
	delete(s.objects, name)
}

// Annotate annotates an object, as a user does with kubectl.
func (s *Store) Annotate(name, key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[name].DeepCopy()
	metav1.SetMetaDataAnnotation(&o.ObjectMeta, key, value)
	o.ResourceVersion = s.next()
	s.objects[name] = o
	s.changes = append(s.changes, Change{Object: o})
}

// Dump is the whole content of a store at one moment.
type Dump struct {
	version   int64
	objects   map[string]*v1alpha1.CDEventSubject
	baselines map[string]*v1alpha1.CDEventBaseline
}

// Dump takes a backup.
func (s *Store) Dump() Dump {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Dump{version: s.version, objects: maps.Clone(s.objects), baselines: maps.Clone(s.baselines)}
}

// Restore restores a backup. Later resourceVersions are then used again.
func (s *Store) Restore(d Dump) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.objects, s.baselines, s.changes = d.version, maps.Clone(d.objects), maps.Clone(d.baselines), nil
}

// invalid rejects what the CRD's schema rejects.
func invalid(o *v1alpha1.CDEventSubject) error {
	for i, c := range o.Status.Conditions {
		if c.LastTransitionTime.IsZero() {
			return apierrors.NewInvalid(v1alpha1.SubjectKind.GroupKind(), o.Name, field.ErrorList{
				field.Required(field.NewPath("status", "conditions").Index(i).Child("lastTransitionTime"), ""),
			})
		}
	}
	return nil
}

// stored is an object as the API server stores it: in what has no schema, fields are in the order of their names.
func stored(o *v1alpha1.CDEventSubject) *v1alpha1.CDEventSubject {
	c := o.DeepCopy()
	for i := range c.Status.Journal {
		raw := &c.Status.Journal[i].Transition.Raw
		var fields any
		decoder := json.NewDecoder(bytes.NewReader(*raw))
		decoder.UseNumber()
		if err := decoder.Decode(&fields); err != nil {
			continue // the API server would refuse it
		}
		if sorted, err := json.Marshal(fields); err == nil {
			*raw = sorted
		}
	}
	return c
}

func (s *Store) do(verb, name string, f func() (*v1alpha1.CDEventSubject, error)) (*v1alpha1.CDEventSubject, error) {
	if s.Before != nil {
		if err := s.Before(verb, name); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	out, err := f()
	if err == nil && verb != "get" && verb != dryRun {
		s.writes++
		s.changes = append(s.changes, Change{Object: out, Deleted: verb == "delete"})
		if s.Wrote != nil {
			s.Wrote(out, verb == "delete")
		}
	}
	s.mu.Unlock()
	if err == nil && s.After != nil {
		err = s.After(verb, name)
	}
	if err != nil {
		return nil, err
	}
	return out.DeepCopy(), nil
}

// dryRun is the verb of a create that stores nothing.
const dryRun = "dry run"

// Create implements ledger.Client.
func (s *Store) Create(_ context.Context, o *v1alpha1.CDEventSubject, opts metav1.CreateOptions) (*v1alpha1.CDEventSubject, error) {
	verb := "create"
	if len(opts.DryRun) > 0 {
		verb = dryRun
	}
	return s.do(verb, o.Name, func() (*v1alpha1.CDEventSubject, error) {
		if _, ok := s.objects[o.Name]; ok {
			return nil, apierrors.NewAlreadyExists(v1alpha1.SubjectResource.GroupResource(), o.Name)
		}
		if err := invalid(o); err != nil {
			return nil, err
		}
		c := stored(o)
		if c.CreationTimestamp = s.created(); verb == dryRun {
			return c, nil
		}
		c.ResourceVersion = s.next()
		c.UID = types.UID("uid-" + c.ResourceVersion)
		s.objects[o.Name] = c
		return c, nil
	})
}

// Update implements ledger.Client.
func (s *Store) Update(_ context.Context, o *v1alpha1.CDEventSubject, _ metav1.UpdateOptions) (*v1alpha1.CDEventSubject, error) {
	return s.do("update", o.Name, func() (*v1alpha1.CDEventSubject, error) {
		have, ok := s.objects[o.Name]
		if !ok {
			return nil, apierrors.NewNotFound(v1alpha1.SubjectResource.GroupResource(), o.Name)
		}
		if have.ResourceVersion != o.ResourceVersion || have.UID != o.UID {
			return nil, conflict(o.Name)
		}
		if err := invalid(o); err != nil {
			return nil, err
		}
		c := stored(o)
		c.ResourceVersion = s.next()
		s.objects[o.Name] = c
		return c, nil
	})
}

// Get implements ledger.Client.
func (s *Store) Get(_ context.Context, name string, _ metav1.GetOptions) (*v1alpha1.CDEventSubject, error) {
	return s.do("get", name, func() (*v1alpha1.CDEventSubject, error) {
		have, ok := s.objects[name]
		if !ok {
			return nil, apierrors.NewNotFound(v1alpha1.SubjectResource.GroupResource(), name)
		}
		return have, nil
	})
}

// Delete implements ledger.Client.
func (s *Store) Delete(_ context.Context, name string, opts metav1.DeleteOptions) error {
	_, err := s.do("delete", name, func() (*v1alpha1.CDEventSubject, error) {
		have, ok := s.objects[name]
		if !ok {
			return nil, apierrors.NewNotFound(v1alpha1.SubjectResource.GroupResource(), name)
		}
		if p := opts.Preconditions; p != nil {
			if p.UID != nil && *p.UID != have.UID || p.ResourceVersion != nil && *p.ResourceVersion != have.ResourceVersion {
				return nil, conflict(name)
			}
		}
		delete(s.objects, name)
		return have, nil
	})
	return err
}

func conflict(name string) error {
	return apierrors.NewConflict(v1alpha1.SubjectResource.GroupResource(), name, errOutdated)
}

var errOutdated = fmt.Errorf("the object has been modified")

// List returns the objects that a field selector matches, in pages.
func (s *Store) List(_ context.Context, opts metav1.ListOptions) (*v1alpha1.CDEventSubjectList, error) {
	selector, err := fields.ParseSelector(opts.FieldSelector)
	if err != nil {
		return nil, fmt.Errorf("listing: %w", err)
	}
	if s.Before != nil {
		if err := s.Before("list", ""); err != nil {
			return nil, err
		}
	}
	out := &v1alpha1.CDEventSubjectList{}
	for _, o := range s.All() {
		at := fields.Set{"spec.kind": o.Spec.Kind, "spec.namespace": o.Spec.Namespace, "spec.name": o.Spec.Name}
		if o.Name <= opts.Continue || !selector.Matches(at) {
			continue
		}
		if opts.Limit > 0 && int64(len(out.Items)) == opts.Limit {
			out.Continue = out.Items[len(out.Items)-1].Name
			break
		}
		out.Items = append(out.Items, *o)
	}
	return out, nil
}
