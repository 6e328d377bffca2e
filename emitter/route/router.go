// SPDX-License-Identifier: Apache-2.0

package route

import (
	"github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// EnvironmentLabel on a namespace names the environment that it belongs to.
const EnvironmentLabel = "cdevents.knative-cdevents.dev/environment"

// Router chooses the recipients of a transition. It implements ledger.Router.
type Router struct {
	// Sources lists the CDEventSources of a namespace, and Source finds one by its UID, nil if there is none. Both are
	// looked up in an index: what a transition costs must not grow with the sources of all other namespaces.
	Sources func(namespace string) []*v1alpha1.CDEventSource
	Source  func(types.UID) *v1alpha1.CDEventSource
	// Namespace returns the labels of a namespace, false if there is none. It is not asked about the
	// namespace of a cluster-scoped object.
	Namespace func(name string) (labels map[string]string, exists bool, err error)
	// SystemNamespace is the only one whose sources may see other namespaces, and cluster-scoped objects.
	SystemNamespace string
	// Cluster is the URI that identifies the cluster.
	Cluster func() string
	// Environment is the default.
	Environment func() v1alpha1.Environment
	Render      cdevents.Renderer
	// Rendering is the version of the rendering that is journaled.
	Rendering int
	// Passes applies a source's filters to an event.
	Passes func(*v1alpha1.CDEventSource, event.Event) (bool, error)

	choices perGeneration[choice]
}

var _ ledger.Router = (*Router)(nil)

// NamespaceLabels implements ledger.Router.
func (r *Router) NamespaceLabels(namespace string) (labels map[string]string, exists bool, err error) {
	if namespace == "" {
		return nil, true, nil
	}
	return r.Namespace(namespace)
}

// Exists implements ledger.Router.
func (r *Router) Exists(source types.UID) bool {
	return r.Source(source) != nil
}

// Operator implements ledger.Router.
func (r *Router) Operator(source types.UID) bool {
	s := r.Source(source)
	return s != nil && s.Namespace == r.SystemNamespace
}
