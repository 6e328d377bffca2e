// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/customrun"
)

// byTemplate is the index of CanaryGates by the template that they refer to.
const byTemplate = "template"

func indexByTemplate(obj any) ([]string, error) {
	if gate, ok := obj.(*v1alpha1.CanaryGate); ok && gate.Spec.Template() != "" {
		return []string{gate.Spec.Template()}, nil
	}
	return nil, nil
}

// watchTemplates syncs the gates that refer to a template when it changes. A run that has begun keeps what it
// began with.
func (g *Gate) watchTemplates(ctx context.Context, gates *controller.Impl) {
	enqueue := func(obj any) {
		name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
		if err != nil {
			return // not an object
		}
		referring, err := g.gates.GetIndexer().ByIndex(byTemplate, name)
		if err != nil {
			return // the index always exists
		}
		for _, gate := range referring {
			gates.Enqueue(gate)
		}
	}
	_, err := g.templates.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: controller.PassNew(enqueue), DeleteFunc: enqueue,
	})
	if err != nil {
		logging.FromContext(ctx).Fatalw("ClusterCanaryGateTemplates cannot be watched", "error", err)
	}
	// The CRD may be missing, as with the manifests of an older release.
	var once sync.Once
	go g.Presence.While(ctx, []string{templateDefinition}, func(context.Context) {
		once.Do(func() { go g.templates.RunWithContext(ctx) })
	}, func() {})
}

// template returns the template of that name, nil if there is none or the name is empty. Only the API server can say
// that there is none, as the cache may be behind; but that is enough for who is told when the template comes.
func (g *Gate) template(ctx context.Context, name string, told bool) (*v1alpha1.ClusterCanaryGateTemplate, error) {
	obj, ok, err := g.templates.GetStore().GetByKey(name)
	if template, is := obj.(*v1alpha1.ClusterCanaryGateTemplate); err == nil && ok && is {
		return template, nil
	}
	if told && g.templates.HasSynced() {
		return nil, nil //nolint:nilnil // its absence is not an error
	}
	return g.readTemplate(ctx, name)
}

// readTemplate returns a template as the API server has it, nil if there is none or the name is empty.
func (g *Gate) readTemplate(ctx context.Context, name string) (*v1alpha1.ClusterCanaryGateTemplate, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // its absence is not an error
	}
	template, err := g.Client.ClusterCanaryGateTemplates().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // its absence is not an error
	case err != nil:
		return nil, fmt.Errorf("reading ClusterCanaryGateTemplate %s: %w", name, err)
	}
	return template, nil
}

// resolve replaces the spec by what the gate's template makes of it. Without the template, or with an invalid one, it
// stays as it is, and problem says why no run may begin.
func (s *gateSync) resolve(ctx context.Context) error {
	s.status.Template = nil
	if s.gate.Validate(ctx) != nil {
		return nil //nolint:nilerr // condition Valid says so
	}
	// A run whose record is lost ends without its template.
	template, err := s.template(ctx, s.gate.Spec.Template(), !s.gate.Status.Run.InProgress())
	if err != nil {
		return err
	}
	spec, use, problem := customrun.Apply(ctx, &s.gate.Spec, template)
	if problem != nil {
		s.problem = problem
		return nil
	}
	s.spec, s.status.Template = spec, use
	s.spec.SetDefaults(ctx)
	return nil
}
