// SPDX-License-Identifier: Apache-2.0

package source

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
)

// Lister finds sources in the cache of an informer with client.SourceIndexers.
type Lister struct{ Indexer cache.Indexer }

// All lists the sources of all namespaces.
func (l Lister) All() []*v1alpha1.CDEventSource {
	all, err := client.NewSourceLister(l.Indexer).List(labels.Everything())
	if err != nil {
		return nil // listing everything from memory cannot fail
	}
	return all
}

// Of lists the sources of a namespace.
func (l Lister) Of(namespace string) []*v1alpha1.CDEventSource {
	return client.SourcesOf(l.Indexer, namespace)
}

// ByUID returns a source, nil if there is none.
func (l Lister) ByUID(uid types.UID) *v1alpha1.CDEventSource {
	return client.SourceByUID(l.Indexer, uid)
}

// Names are the names of sources in metrics and logs.
func (l Lister) Names() map[types.UID]string {
	out := map[types.UID]string{}
	for _, s := range l.All() {
		out[s.UID] = s.Namespace + "/" + s.Name
	}
	return out
}
