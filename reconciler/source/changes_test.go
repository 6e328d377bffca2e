// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
)

var cartKey = types.NamespacedName{Namespace: "shop", Name: "cart"}

// requeued are watched objects. They record which are requeued.
type requeued struct{ all, keys []types.NamespacedName }

func (r *requeued) Requeue(these func(types.NamespacedName) bool) {
	for _, key := range r.all {
		if these(key) {
			r.keys = append(r.keys, key)
		}
	}
}

// following returns Changes for a cache of sources, and one object.
func following(t *testing.T) (*Changes, cache.Indexer, *requeued) {
	t.Helper()
	ours, err := client.New(&rest.Config{Host: "https://nowhere.invalid"})
	if err != nil {
		t.Fatal(err)
	}
	sources := Lister{client.NewSourceInformer(ours, metav1.NamespaceAll, 0, nil).GetIndexer()}
	router := &route.Router{
		Sources: sources, SystemNamespace: "knative-cdevents",
		Namespace: func(string) (map[string]string, bool, error) { return nil, true, nil },
	}
	objects := &requeued{all: []types.NamespacedName{cartKey}}
	c := NewChanges(noRecipients{}, route.NewFilters(), router, objects, sources, "knative-cdevents")
	c.pending.every = 0
	return c, sources.Indexer, objects
}

// noRecipients sends nothing.
type noRecipients struct{}

func (noRecipients) UpdateSource(*v1alpha1.CDEventSource) {}
func (noRecipients) DeleteSource(types.UID)               {}

func aged(namespace string, age int) *v1alpha1.CDEventSource {
	name := fmt.Sprintf("s%02d", age)
	return &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(namespace + name), Generation: 1,
		CreationTimestamp: metav1.NewTime(time.Unix(1.8e9, 0).Add(-time.Duration(age) * time.Hour)),
	}}
}

// A source above the limit receives its replay as soon as an older source is deleted.
func TestFreedPlaceReconciles(t *testing.T) {
	t.Parallel()
	surplus := aged("shop", 0)
	for name, c := range map[string]struct {
		namespace string
		others    int // number of older sources
		gone      *v1alpha1.CDEventSource
		replay    v1alpha1.Replay
		want      bool
	}{
		"an older source is deleted":    {"shop", route.MaxSources, aged("shop", 5), v1alpha1.ReplayCurrent, true},
		"no replay":                     {"shop", route.MaxSources, aged("shop", 5), v1alpha1.ReplayNone, false},
		"below the limit":               {"shop", route.MaxSources - 1, aged("shop", 5), v1alpha1.ReplayCurrent, false},
		"still above the limit":         {"shop", route.MaxSources + 1, aged("shop", 5), v1alpha1.ReplayCurrent, false},
		"deleted in another namespace":  {"shop", route.MaxSources, aged("other", 5), v1alpha1.ReplayCurrent, false},
		"the source itself is deleted":  {"shop", route.MaxSources, surplus, v1alpha1.ReplayCurrent, false},
		"system namespace has no limit": {"knative-cdevents", route.MaxSources, aged("knative-cdevents", 5), v1alpha1.ReplayCurrent, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, index, objects := following(t)
			youngest := aged(c.namespace, 0)
			youngest.Spec.Replay = c.replay
			for _, s := range append([]*v1alpha1.CDEventSource{youngest}, older(c.namespace, c.others)...) {
				if s.UID == c.gone.UID {
					c.gone = s
				}
				if err := index.Add(s); err != nil {
					t.Fatal(err)
				}
			}
			marked := c.gone.DeepCopy()
			marked.DeletionTimestamp, marked.Generation = &metav1.Time{Time: time.Now()}, c.gone.Generation+1
			for how, notify := range map[string]func(){
				"deletion timestamp": func() { h.OnUpdate(c.gone, marked) },
				"deleted":            func() { h.OnDelete(c.gone) },
				"tombstone":          func() { h.OnDelete(cache.DeletedFinalStateUnknown{Obj: c.gone}) },
			} {
				objects.keys = nil
				_ = index.Delete(c.gone) // the informer updates its cache before it calls handlers
				if how == "deletion timestamp" && c.gone.Namespace == c.namespace {
					_ = index.Add(marked)
				}
				if notify(); (len(objects.keys) > 0) != c.want {
					t.Errorf("%s: %d keys enqueued, want any: %v", how, len(objects.keys), c.want)
				}
				_ = index.Delete(marked)
			}
		})
	}
}

func older(namespace string, n int) []*v1alpha1.CDEventSource {
	var out []*v1alpha1.CDEventSource
	for i := range n {
		out = append(out, aged(namespace, i+1))
	}
	return out
}

// With its new labels, the namespace may be selected by a source that wants a replay.
func TestRelabelledNamespaceReconcilesItsServices(t *testing.T) {
	t.Parallel()
	c, index, objects := following(t)
	relabel := func(replay v1alpha1.Replay, selector *metav1.LabelSelector) int {
		s := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{Namespace: "knative-cdevents", Name: "all"}}
		s.Spec.Replay, s.Spec.NamespaceSelector = replay, selector
		if err := index.Add(s); err != nil {
			t.Fatal(err)
		}
		objects.keys = nil
		c.Relabelled("shop")
		return len(objects.keys)
	}
	if relabel(v1alpha1.ReplayCurrent, &metav1.LabelSelector{}) != 1 || objects.keys[0] != cartKey {
		t.Errorf("reconciled %v", objects.keys)
	}
	// No source selects by labels, or none wants a replay.
	if relabel(v1alpha1.ReplayCurrent, nil)+relabel("", &metav1.LabelSelector{}) != 0 {
		t.Errorf("reconciled %v unnecessarily", objects.keys)
	}
}

// known are the sources that events are sent to.
type known map[types.UID]bool

func (k known) UpdateSource(s *v1alpha1.CDEventSource) { k[s.UID] = true }
func (k known) DeleteSource(source types.UID)          { delete(k, source) }

// A source is deleted and made again while the watch is interrupted: the informer shows one update. What is pending for
// the former one is given up, and the new one receives the current state.
func TestSourceMadeAgainWhileTheWatchIsInterrupted(t *testing.T) {
	t.Parallel()
	h, index, objects := following(t)
	to := known{}
	h.recipients = to
	was := aged("shop", 1)
	was.Spec.Replay = v1alpha1.ReplayCurrent
	h.OnAdd(was, true)
	objects.keys = nil
	is := was.DeepCopy()
	is.UID = "another"
	if err := index.Update(is); err != nil {
		t.Fatal(err)
	}
	h.OnUpdate(was, is)
	if to[was.UID] || !to[is.UID] || len(objects.keys) == 0 {
		t.Errorf("events are sent to %v, and %d objects are processed again", to, len(objects.keys))
	}
}
