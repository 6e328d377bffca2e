// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata/fake"
)

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// A kind whose definition is still on its way to the handler must not look absent.
func TestWhatExistsIsKnownWhenTheHandlerHasSeenAllOfIt(t *testing.T) {
	t.Parallel()
	names := []string{"clusters.a.example.com", "clusters.b.example.com"}
	var definitions []runtime.Object
	for _, name := range names {
		definitions = append(definitions, &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: Definitions.GroupVersion().String(), Kind: "CustomResourceDefinition"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
		})
	}
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	p, err := NewPresence(fake.NewSimpleMetadataClient(scheme, definitions...), "")
	if err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	p.OnChange(func() { <-release })
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	defer running.Wait()
	defer stop()
	until(t, "the informer has all definitions", p.informer.HasSynced)
	until(t, "the handler has the first one", func() bool { return len(p.Definitions()) == 1 })
	if p.Synced() {
		t.Errorf("it is known what exists, and %v does not", names)
	}
	close(release)
	until(t, "it is known what exists", p.Synced)
	if !p.Has(names...) {
		t.Errorf("%v are there, want %v", p.Definitions(), names)
	}
}
