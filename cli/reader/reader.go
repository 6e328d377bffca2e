// SPDX-License-Identifier: Apache-2.0

// Package reader reads what a user may see of deliveries, rollouts and gates. It uses clients of single groups, and no
// client of client-go for discovery or for all of Kubernetes: these register every type of Kubernetes, which would be a
// quarter of the plugin.
//
// Its invariant: it only gets, lists and watches, with the credentials that it is given. What the
// user may not read is an error that says which right is missing, and never an empty answer.
package reader

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	servingclient "knative.dev/serving/pkg/client/clientset/versioned/typed/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
)

// Reader reads from one cluster.
type Reader struct {
	// Events reads the kinds of this project.
	Events *client.Clientset
	// Serving reads those of Knative Serving.
	Serving servingclient.ServingV1Interface
	// System is the namespace of the controller.
	System string

	dynamic dynamic.Interface
	config  *rest.Config
}

// New returns a reader for the connection that cfg describes, and for the controller in namespace system.
func New(cfg *rest.Config, system string) (*Reader, error) {
	cfg = rest.CopyConfig(cfg)
	if cfg.QPS == 0 {
		cfg.QPS, cfg.Burst = 50, 100
	}
	events, err := client.New(cfg)
	if err != nil {
		return nil, err
	}
	serving, err := servingclient.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client for Knative Serving: %w", err)
	}
	others, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client for CustomRuns: %w", err)
	}
	return &Reader{Events: events, Serving: serving, System: system, dynamic: others, config: cfg}, nil
}

// pageSize is how many objects are read at a time.
const pageSize = 500

// pages lists all objects, a page at a time.
func pages[T any](list func(metav1.ListOptions) (items []T, more string, err error)) ([]T, error) {
	var out []T
	for opts := (metav1.ListOptions{Limit: pageSize}); ; {
		items, more, err := list(opts)
		if err != nil {
			return nil, err
		}
		if out = append(out, items...); more == "" {
			return out, nil
		}
		opts.Continue = more
	}
}

// Services returns the Knative Services of a namespace, or of all if it is empty.
func (r *Reader) Services(ctx context.Context, namespace string) ([]servingv1.Service, error) {
	out, err := pages(func(o metav1.ListOptions) ([]servingv1.Service, string, error) {
		l, err := r.Serving.Services(namespace).List(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return l.Items, l.Continue, nil
	})
	return out, explain(err, "list", services, namespace)
}

// Service returns one Knative Service.
func (r *Reader) Service(ctx context.Context, namespace, name string) (*servingv1.Service, error) {
	s, err := r.Serving.Services(namespace).Get(ctx, name, metav1.GetOptions{})
	return s, explainOne(err, services, "Knative Service", namespace, name)
}

// Revisions returns the Revisions of one Knative Service.
func (r *Reader) Revisions(ctx context.Context, namespace, service string) ([]servingv1.Revision, error) {
	out, err := pages(func(o metav1.ListOptions) ([]servingv1.Revision, string, error) {
		o.LabelSelector = "serving.knative.dev/service=" + service
		l, err := r.Serving.Revisions(namespace).List(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return l.Items, l.Continue, nil
	})
	return out, explain(err, "list", revisions, namespace)
}

// Sources returns the CDEventSources of a namespace, or of all if it is empty.
func (r *Reader) Sources(ctx context.Context, namespace string) ([]v1alpha1.CDEventSource, error) {
	out, err := pages(func(o metav1.ListOptions) ([]v1alpha1.CDEventSource, string, error) {
		l, err := r.Events.CDEventSources(namespace).List(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return l.Items, l.Continue, nil
	})
	return out, explain(err, "list", v1alpha1.SourceResource, namespace)
}

// Gates returns the CanaryGates of a namespace, or of all if it is empty.
func (r *Reader) Gates(ctx context.Context, namespace string) ([]v1alpha1.CanaryGate, error) {
	out, err := pages(func(o metav1.ListOptions) ([]v1alpha1.CanaryGate, string, error) {
		l, err := r.Events.CanaryGates(namespace).List(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return l.Items, l.Continue, nil
	})
	return out, explain(err, "list", v1alpha1.GateResource, namespace)
}

// Gate returns one CanaryGate.
func (r *Reader) Gate(ctx context.Context, namespace, name string) (*v1alpha1.CanaryGate, error) {
	g, err := r.Events.CanaryGates(namespace).Get(ctx, name, metav1.GetOptions{})
	return g, explainOne(err, v1alpha1.GateResource, "CanaryGate", namespace, name)
}

// Source returns one CDEventSource.
func (r *Reader) Source(ctx context.Context, namespace, name string) (*v1alpha1.CDEventSource, error) {
	s, err := r.Events.CDEventSources(namespace).Get(ctx, name, metav1.GetOptions{})
	return s, explainOne(err, v1alpha1.SourceResource, "CDEventSource", namespace, name)
}

// Ledger returns the CDEventSubjects about objects in a namespace, or about all objects if it is empty.
func (r *Reader) Ledger(ctx context.Context, namespace string) ([]v1alpha1.CDEventSubject, error) {
	out, err := pages(func(o metav1.ListOptions) ([]v1alpha1.CDEventSubject, string, error) {
		l, err := r.Events.CDEventSubjects(r.System).List(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return slices.DeleteFunc(l.Items, elsewhere(namespace)), l.Continue, nil
	})
	return out, explain(err, "list", v1alpha1.SubjectResource, r.System)
}

// elsewhere reports whether an entry is about an object of another namespace. If namespace is empty, none is.
func elsewhere(namespace string) func(v1alpha1.CDEventSubject) bool {
	return func(s v1alpha1.CDEventSubject) bool { return namespace != "" && s.Spec.Namespace != namespace }
}

// Baselines returns since when objects of each kind are announced.
func (r *Reader) Baselines(ctx context.Context) ([]v1alpha1.CDEventBaseline, error) {
	out, err := pages(func(o metav1.ListOptions) ([]v1alpha1.CDEventBaseline, string, error) {
		l, err := r.Events.CDEventBaselines(r.System).List(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return l.Items, l.Continue, nil
	})
	return out, explain(err, "list", v1alpha1.BaselineResource, r.System)
}

// Entry returns the CDEventSubject of the object with this kind and UID, or nil if there is none.
func (r *Reader) Entry(ctx context.Context, kind string, uid types.UID) (*v1alpha1.CDEventSubject, error) {
	name := v1alpha1.CDEventSubjectSpec{Kind: kind, UID: uid}.ObjectName()
	s, err := r.Events.CDEventSubjects(r.System).Get(ctx, name, metav1.GetOptions{})
	if known(err) {
		return nil, nil //nolint:nilnil // its absence is not an error
	}
	return s, explain(err, "get", v1alpha1.SubjectResource, r.System)
}

// Placement returns the plan for the shards of the Knative Service with this UID, or nil if there is none.
func (r *Reader) Placement(ctx context.Context, service types.UID) (*v1alpha1.ShardPlacement, error) {
	p, err := r.Events.ShardPlacements(r.System).Get(ctx, "service-"+string(service), metav1.GetOptions{})
	if known(err) {
		return nil, nil //nolint:nilnil // its absence is not an error
	}
	return p, explain(err, "get", v1alpha1.PlacementResource, r.System)
}

// FinishedRuns returns what finished runs of gates in a namespace measured, or in all if it is empty.
func (r *Reader) FinishedRuns(ctx context.Context, namespace string) ([]v1alpha1.CanaryGateRun, error) {
	out, err := pages(func(o metav1.ListOptions) ([]v1alpha1.CanaryGateRun, string, error) {
		o.LabelSelector = v1alpha1.FinishedRunLabel
		l, err := r.Events.CanaryGateRuns(r.System).List(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return slices.DeleteFunc(l.Items, func(run v1alpha1.CanaryGateRun) bool {
			return namespace != "" && run.Spec.Namespace != namespace
		}), l.Continue, nil
	})
	return out, explain(err, "list", v1alpha1.GateRunResource, r.System)
}

var (
	services   = servingv1.SchemeGroupVersion.WithResource("services")
	revisions  = servingv1.SchemeGroupVersion.WithResource("revisions")
	customRuns = schema.GroupVersionResource{Group: "tekton.dev", Version: "v1beta1", Resource: "customruns"}
)

// CustomRun returns the run of a gate that a Tekton CustomRun holds, or nil if it holds none.
func (r *Reader) CustomRun(ctx context.Context, namespace, name string) (*v1alpha1.GateRun, error) {
	u, err := r.dynamic.Resource(customRuns).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, explainOne(err, customRuns, "CustomRun", namespace, name)
	}
	return gateRun(u.Object)
}
