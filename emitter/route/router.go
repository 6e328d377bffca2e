// SPDX-License-Identifier: Apache-2.0

package route

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// EnvironmentLabel on a namespace names the environment that it belongs to.
const EnvironmentLabel = "cdevents.knative-cdevents.dev/environment"

// Sources finds CDEventSources in an index: what a transition costs must not grow with the sources of all other
// namespaces. source.Lister implements it.
type Sources interface {
	// Of lists the sources of a namespace.
	Of(namespace string) []*v1alpha1.CDEventSource
	// ByUID returns a source, nil if there is none.
	ByUID(source types.UID) *v1alpha1.CDEventSource
}

// Settings are those of the operator. They may change at any time. store.Store implements it.
type Settings interface {
	// ClusterURI identifies the cluster.
	ClusterURI() string
	// Environment is that of events where neither their namespace nor the source names one.
	Environment() v1alpha1.Environment
}

// Router chooses the recipients of a transition. It implements ledger.Router.
type Router struct {
	Sources Sources
	// Namespace returns the labels of a namespace, false if there is none. It is not asked about the
	// namespace of a cluster-scoped object.
	Namespace func(name string) (labels map[string]string, exists bool, err error)
	// SystemNamespace is the only one whose sources may see other namespaces, and cluster-scoped objects.
	SystemNamespace string
	Settings        Settings
	Render          cdevents.Renderer
	// Rendering is the version of the rendering that is journaled.
	Rendering int
	// Filters are those of all sources.
	Filters *Filters

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
	return r.Sources.ByUID(source) != nil
}

// Operator implements ledger.Router.
func (r *Router) Operator(source types.UID) bool {
	s := r.Sources.ByUID(source)
	return s != nil && s.Namespace == r.SystemNamespace
}
