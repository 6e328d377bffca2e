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

// errMoved is that somebody else was first: look again at what there is now.
var errMoved = errors.New("the run was changed by another writer")

// owner is the object that a run is for.
type owner v1alpha1.CanaryGateRunSpec

const (
	ofGate      = "CanaryGate"
	ofCustomRun = "CustomRun"
)

// name of the owner's record: there is one, which its next run takes over.
func (o owner) name() string { return strings.ToLower(o.Kind) + "-" + string(o.UID) }

// Where a record says whose it is, to those who read its metadata only.
const (
	kindAnnotation      = "knative-cdevents.dev/kind"
	namespaceAnnotation = "knative-cdevents.dev/namespace"
	nameAnnotation      = "knative-cdevents.dev/name"
	uidAnnotation       = "knative-cdevents.dev/uid"
	serviceAnnotation   = "knative-cdevents.dev/service"
)

// records keep runs that are under way, in CanaryGateRuns.
//
// A record is the truth about its run, and written before what people are told of it:
// whoever takes over goes on from there. Its resource version is the fence between two
// who both think that they lead.
type records struct {
	client *client.GateRuns

	mu sync.Mutex
	// known is what this process has read or written last, by name.
	known map[string]*v1alpha1.CanaryGateRun
}

func newRecords(c *client.GateRuns) *records {
	return &records{client: c, known: map[string]*v1alpha1.CanaryGateRun{}}
}

func (r *records) cached(name string) *v1alpha1.CanaryGateRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[name]
}

// keep remembers a record; nil is none.
func (r *records) keep(name string, record *v1alpha1.CanaryGateRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if record == nil {
		delete(r.known, name)
		return
	}
	record.ManagedFields = nil
	r.known[name] = record
}

// forget has everything be read anew, as by whoever leads anew.
func (r *records) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.known)
}

// get returns the owner's run, nil if none is kept. It is not to be changed.
func (r *records) get(ctx context.Context, o owner) (*v1alpha1.GateRun, error) {
	record := r.cached(o.name())
	if record == nil {
		var err error
		record, err = r.client.Get(ctx, o.name(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil //nolint:nilnil // none is not an error
		}
		if err != nil {
			return nil, fmt.Errorf("reading CanaryGateRun %s: %w", o.name(), err)
		}
		r.keep(o.name(), record)
	}
	return record.Status.Run, nil
}

// put keeps a run, in place of the one that get returned last.
func (r *records) put(ctx context.Context, o owner, run *v1alpha1.GateRun) error {
	name, was := o.name(), r.cached(o.name())
	record := &v1alpha1.CanaryGateRun{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.GateRunKind.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	if was != nil {
		record.ObjectMeta = *was.ObjectMeta.DeepCopy()
	}
	record.Annotations = map[string]string{
		kindAnnotation: o.Kind, namespaceAnnotation: o.Namespace, nameAnnotation: o.Name, uidAnnotation: string(o.UID), serviceAnnotation: run.Service.Name,
	}
	record.Spec, record.Status.Run = v1alpha1.CanaryGateRunSpec(o), run
	var err error
	if was == nil {
		record, err = r.client.Create(ctx, record, metav1.CreateOptions{})
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("storing a run: kind CanaryGateRun does not exist; apply config/300-canarygaterun.yaml: %s", err.Error())
		}
	} else {
		record, err = r.client.Update(ctx, record, metav1.UpdateOptions{})
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		r.keep(name, nil)
		return errMoved
	case err != nil:
		return fmt.Errorf("writing CanaryGateRun %s: %w", name, err)
	}
	r.keep(name, record)
	return nil
}

// drop deletes the owner's record, if this process knows of one. Another one is found
// by the patrol.
func (r *records) drop(ctx context.Context, o owner) error {
	record := r.cached(o.name())
	if record == nil {
		return nil
	}
	r.keep(o.name(), nil)
	return r.remove(ctx, record.Name, record.UID, record.ResourceVersion)
}

// remove deletes a record as it was seen; of one that was written since, nothing.
func (r *records) remove(ctx context.Context, name string, uid types.UID, version string) error {
	err := r.client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting CanaryGateRun %s: %w", name, err)
	}
	return nil
}
