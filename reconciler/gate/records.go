// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
)

// errConflict means that another writer was first. Read the object and try again.
var errConflict = errors.New("the run was changed by another writer")

// errUntold means that the verdict of the last run cannot be reported yet. Try again.
var errUntold = errors.New("the verdict of the last run is not reported yet")

// owner is the object that a run belongs to.
type owner v1alpha1.CanaryGateRunSpec

const (
	ofGate      = "CanaryGate"
	ofCustomRun = "CustomRun"
)

// recordName of the owner's only record. Its next run reuses it.
func (o owner) recordName() string { return strings.ToLower(o.Kind) + "-" + string(o.UID) }

// records store the runs in progress, in CanaryGateRuns.
//
// A record is the source of truth for its run, and is written before the status: a new
// leader continues from it. Its resource version fences off a second leader.
type records struct {
	client *client.GateRuns
	// keep keeps what a finished run measured before its record is gone.
	keep func(context.Context, *v1alpha1.CanaryGateRun) error
	// tell reports the verdict of a finished run before its record is gone. It returns false if it is too early.
	tell func(namespace string, run *v1alpha1.GateRun) bool
	// gone says that a finished run has no record any more.
	gone func(run *v1alpha1.GateRun)

	mu sync.Mutex
	// byName are the records that this process read or wrote last.
	byName map[string]*v1alpha1.CanaryGateRun
}

func newRecords(c *client.GateRuns) *records {
	return &records{client: c, byName: map[string]*v1alpha1.CanaryGateRun{}}
}

func (r *records) cached(name string) *v1alpha1.CanaryGateRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byName[name]
}

// remember caches a record; nil removes it.
func (r *records) remember(name string, record *v1alpha1.CanaryGateRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if record == nil {
		delete(r.byName, name)
		return
	}
	record.ManagedFields = nil
	r.byName[name] = record
}

// forget empties the cache, as a new leader must.
func (r *records) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.byName)
}

// get returns the owner's run, or nil. Do not change it.
func (r *records) get(ctx context.Context, o owner) (*v1alpha1.GateRun, error) {
	record := r.cached(o.recordName())
	if record == nil {
		var err error
		record, err = r.client.Get(ctx, o.recordName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil //nolint:nilnil // its absence is not an error
		}
		if err != nil {
			return nil, fmt.Errorf("reading CanaryGateRun %s: %w", o.recordName(), err)
		}
		r.remember(o.recordName(), record)
	}
	return record.Status.Run, nil
}

// put stores a run in place of the one that get returned.
func (r *records) put(ctx context.Context, o owner, run *v1alpha1.GateRun) error {
	name, was := o.recordName(), r.cached(o.recordName())
	record := &v1alpha1.CanaryGateRun{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.GateRunKind.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	replaces := was != nil && was.Status.Run != nil && was.Status.Run.ID != run.ID
	if was != nil {
		record.ObjectMeta = *was.ObjectMeta.DeepCopy()
		if replaces {
			if !r.tell(o.Namespace, was.Status.Run) {
				return errUntold
			}
			if err := r.keep(ctx, was); err != nil {
				return err
			}
		}
	}
	record.Annotations = map[string]string{v1alpha1.RunServiceAnnotation: run.Service.Name}
	record.Spec, record.Status.Run = v1alpha1.CanaryGateRunSpec(o), run
	record.AnnotateOwner()
	var err error
	if was == nil {
		record, err = r.client.Create(ctx, record, metav1.CreateOptions{})
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("storing a run: kind CanaryGateRun does not exist; apply config/300-canarygaterun.yaml: %s",
				err.Error())
		}
	} else {
		record, err = r.client.Update(ctx, record, metav1.UpdateOptions{})
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		r.remember(name, nil)
		return errConflict
	case err != nil:
		return fmt.Errorf("writing CanaryGateRun %s: %w", name, err)
	}
	r.remember(name, record)
	if replaces {
		r.gone(was.Status.Run)
	}
	return nil
}

// finish keeps what the owner's run measured if its record is cached. collect deletes the record, once the journal must
// have the verdict.
func (r *records) finish(ctx context.Context, o owner) error {
	record := r.cached(o.recordName())
	if record == nil {
		return nil
	}
	if err := r.keep(ctx, record); err != nil {
		return err
	}
	r.remember(o.recordName(), nil)
	return nil
}

// remove deletes a record, unless it was written since.
func (r *records) remove(ctx context.Context, name string, uid types.UID, version string) error {
	err := r.client.Delete(ctx, name,
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting CanaryGateRun %s: %w", name, err)
	}
	return nil
}
