// SPDX-License-Identifier: Apache-2.0

package route

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// indexed are the sources in an index.
type indexed struct{ cache.Indexer }

func (i indexed) Of(namespace string) []*v1alpha1.CDEventSource {
	return client.SourcesOf(i.Indexer, namespace)
}

func (i indexed) ByUID(uid types.UID) *v1alpha1.CDEventSource {
	return client.SourceByUID(i.Indexer, uid)
}

// inCluster returns a router of a cluster with n sources, 32 of them in the namespace of the subject.
func inCluster(n int) *Router {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, client.SourceIndexers())
	for i := range n {
		s := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{
			Namespace: subject.Namespace, Name: fmt.Sprint("s", i), UID: types.UID(fmt.Sprint("uid-", i)), Generation: 1,
		}}
		if i >= MaxSources {
			s.Namespace = fmt.Sprint("ns-", i/MaxSources)
		}
		if err := indexer.Add(s); err != nil {
			panic(err)
		}
	}
	r := router(nil)
	r.Sources = indexed{indexer}
	return r
}

// BenchmarkManySources prints how much more a transition costs with 10,000 sources in the cluster than with 32.
func BenchmarkManySources(b *testing.B) {
	few, many := inCluster(MaxSources), inCluster(10_000)
	took := func(r *Router) time.Duration {
		at := time.Now()
		for range 20 {
			if got := r.Recipients(subject, ledger.Labels{}, lifecycle.Transition{Sequence: 1, Type: lifecycle.Deployed, Time: noon}); len(got) != MaxSources {
				b.Fatalf("%d recipients", len(got))
			}
			r.Exists("uid-1")
			r.Operator("uid-1")
		}
		return time.Since(at)
	}
	took(few)
	took(many)
	var a, z time.Duration
	for b.Loop() {
		a, z = a+took(few), z+took(many)
	}
	b.ReportMetric(float64(z)/float64(a), "times-the-cost")
}

// What a transition asks for does not grow with the sources of other namespaces.
func TestRecipientsAreLookedUp(t *testing.T) {
	few, many := inCluster(MaxSources), inCluster(1000)
	cost := func(r *Router) float64 {
		return testing.AllocsPerRun(20, func() {
			r.Recipients(subject, ledger.Labels{}, lifecycle.Transition{Sequence: 1, Type: lifecycle.Deployed, Time: noon})
			r.Exists("uid-1")
		})
	}
	if a, z := cost(few), cost(many); z > a+1 {
		t.Errorf("%v allocations with few sources in the cluster, and %v with many", a, z)
	}
}
