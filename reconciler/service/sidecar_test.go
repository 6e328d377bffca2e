// SPDX-License-Identifier: Apache-2.0

package service

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// sidecars are the images of the sidecars in pods, by Revision.
type sidecars map[types.UID]string

func (s sidecars) Sidecar(_ types.NamespacedName, revision types.UID) string { return s[revision] }

func (sidecars) Polled(types.NamespacedName) (began time.Time, version string) { return began, "" }

// rules are those without a ConfigMap.
type rules struct{}

func (rules) Rules() lifecycle.Rules { return lifecycle.DefaultRules }

func TestSidecarOfAReadyRevision(t *testing.T) {
	const image = "registry.example.com/sidecar@sha256:39fb"
	for name, c := range map[string]struct {
		runtime string
		pods    sidecars
		want    []lifecycle.Image
	}{
		"by digest": {
			"sidecar",
			sidecars{"uid-cart-00002": image},
			[]lifecycle.Image{{Container: "stateful-sidecar", Image: image, Digest: image}},
		},
		"by tag": {
			"sidecar",
			sidecars{"uid-cart-00002": "registry.example.com/sidecar:1"},
			[]lifecycle.Image{{Container: "stateful-sidecar", Image: "registry.example.com/sidecar:1"}},
		},
		"another Revision's":      {"sidecar", sidecars{"uid-cart-00001": image}, nil},
		"of a library":            {"pekko", sidecars{"uid-cart-00002": image}, nil},
		"too long for an event":   {"sidecar", sidecars{"uid-cart-00002": strings.Repeat("i", 5<<10)}, nil},
		"without a stateful part": {"", sidecars{"uid-cart-00002": image}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			k := &Kind{settings: rules{}}
			k.useClusters(c.pods)
			r := newRevision()
			if c.runtime != "" {
				r.Annotations[v1alpha1.AnnotationRuntime] = c.runtime
				r.Annotations[v1alpha1.AnnotationKey] = "header:X-User"
			}
			svc, revision := transformed(t, newService()).part, transformed(t, r).part
			v, ok := revision.Value.(revisionValue)
			if !ok {
				t.Fatal("not a Revision")
			}
			own := v.Facts.Images
			result, err := memory{kind: k}.Next(t.Context(), observer.Step{State: observer.State{
				Parts: observer.Parts{svc.Name: svc, revision.Name: revision}, At: time.Now(),
			}})
			if err != nil {
				t.Fatal(err)
			}
			for _, ready := range result.Transitions {
				if ready.Type != lifecycle.RevisionReady {
					continue
				}
				if got := ready.Revision.Images[len(own):]; len(got) != len(c.want) || len(got) > 0 && !reflect.DeepEqual(got, c.want) {
					t.Errorf("the further images are %+v, want %+v", got, c.want)
				}
				if m, ok := result.Memory.(memory); !ok || !reflect.DeepEqual(m.Revisions["cart-00002"].Images, own) {
					t.Errorf("the memory has %+v, want what the template says: %+v", result.Memory, own)
				}
				return
			}
			t.Errorf("no Revision is ready in %+v", result.Transitions)
		})
	}
}
