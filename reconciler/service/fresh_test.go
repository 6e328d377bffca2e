// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"testing"
	"unique"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// holding returns a cache that holds the parts of one Service.
func holding(t *testing.T, parts observer.Parts) cache.Indexer {
	t.Helper()
	indexer := cache.NewIndexer(func(obj any) (string, error) {
		if s, ok := obj.(*stored); ok {
			return s.part.Name, nil
		}
		return "", fmt.Errorf("%T is not a part", obj)
	}, Indexers())
	for _, p := range parts {
		if err := indexer.Add(&stored{namespace: unique.Make("shop"), service: "cart", part: p}); err != nil {
			t.Fatal(err)
		}
	}
	return indexer
}

func TestStaleDomainMappings(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "shop", Name: "cart"}
	domain := func(version string) observer.Parts {
		return observer.Parts{"domain/a": {Name: "domain/a", Version: version, Value: 1, Floating: true}}
	}
	for name, c := range map[string]struct {
		earlier  bool
		at, seen string
		position string
		cached   observer.Parts
		past     bool
		lagging  bool
		now      string
	}{
		"newer than the memory":                       {at: "12", seen: "11", now: "12"},
		"as old as the memory":                        {at: "12", seen: "12", now: "12"},
		"memory of an old release without a position": {at: "12", now: "12"},
		"unknown position":                            {seen: "12"},
		"not the last step of the history": {
			earlier: true, at: "12", seen: "20", position: "30",
			cached: domain("10"), past: true,
		},
		"nothing newer in the caches": {
			at: "12", seen: "20", position: "30", cached: domain("10"),
			now: "30",
		},
		"the caches lag behind": {
			at: "12", seen: "20", position: "19", cached: domain("10"),
			past: true, lagging: true,
		},
		"the caches already have a newer version": {
			at: "12", seen: "20", position: "30", cached: domain("25"),
			past: true, lagging: true,
		},
		"deleted from the caches": {at: "12", seen: "20", position: "30", past: true, lagging: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := NewKind(nil, nil, nil, nil)
			k.Use([]cache.Indexer{holding(t, c.cached)}, func() string { return c.position })
			from := observer.Step{
				Key: key, State: observer.State{Parts: domain("10"), Position: c.at},
				Later: func() []observer.State { return nil },
			}
			if c.earlier {
				from.Later = func() []observer.State { return make([]observer.State, 1) }
			}
			m := lifecycle.Memory{Versions: map[string]string{lifecycle.ObjectRoute: "1"}, URLs: []string{"http://a"}}
			if c.seen != "" {
				m.Versions[lifecycle.ObjectDomains] = c.seen
			}
			s := lifecycle.Snapshot{Versions: map[string]string{lifecycle.ObjectRoute: "1"}, Route: &lifecycle.Route{}}
			news, lagging := k.fresh(m, &s, from)
			if s.URLsStale != c.past || lagging != c.lagging || s.Versions[lifecycle.ObjectDomains] != c.now || !news {
				t.Errorf("past %v, lagging %v, seen %q, news %v; want %v, %v, %q", s.URLsStale, lagging,
					s.Versions[lifecycle.ObjectDomains], news, c.past, c.lagging, c.now)
			}
		})
	}
}
