// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"encoding/json"
	"testing"

	"github.com/cdevents/sdk-go/pkg/api"
	packageurl "github.com/package-url/packageurl-go"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// FuzzRender renders whatever users, including hostile ones, can write into their objects. There is
// always an event, and it is always valid.
func FuzzRender(f *testing.F) {
	f.Add("shop", "cart", "cart-00001", "registry.example.com/cart:1", "registry.example.com/cart@"+digest1,
		AnnotationLinks, "ARTIFACT=1,2", "production", "https://example.com", "team", "checkout", uint8(1))
	f.Add("", "", "", "", "", "", "", "", "", "", "", uint8(0))
	f.Add("a/b", "c\r\nd", "\xff", "x@sha256:", "@", AnnotationChainID, "\x00", "\x00", "%zz", "id", "\uffff", uint8(255))
	f.Add("..", ".", "?", "a:b:c", "[::1]:5000/a", AnnotationTraceParent, "00-0-0-0", "#", "//", "A1", "%", uint8(12))
	f.Add("fleet", "prod", "v1.34.1", "cluster.x-k8s.io/v1beta2", "fleet/standard", AnnotationBranch, "eu", "prod-eu", "https://prod.example.com:6443", "pool", "x", uint8(2*18))
	f.Fuzz(func(t *testing.T, namespace, name, revision, image, digest,
		annotation, value, environment, environmentSource, extension, extensionValue string, pick uint8,
	) {
		version := []string{Version05, Version04}[pick%2]
		tr := story()[int(pick/2)%len(story())]
		r := &lifecycle.Revision{
			Name: revision, UID: types.UID(value),
			Images:      []lifecycle.Image{{Container: name, Image: image, Digest: digest}},
			Annotations: map[string]string{annotation: value},
		}
		if pick&64 == 0 {
			tr.Revision = r
		}
		if pick&128 == 0 {
			tr.Previous = r
		}
		tr.Annotations = map[string]string{AnnotationLinks: value, AnnotationBranch: value, AnnotationDeployer: image}
		tr.URLs = append(tr.URLs, value)
		tr.Traffic = append(tr.Traffic, lifecycle.Share{Revision: revision})
		s := v1alpha1.CDEventSubjectSpec{Kind: "Service", Namespace: namespace, Name: name, UID: "u"}
		if tr.Environment != nil {
			s.APIVersion, s.Kind = image, "Cluster"
			e := lifecycle.Environment{ID: environment, Version: revision, Region: value, URL: environmentSource, Class: digest, Pools: []string{extension, value}, Note: image}
			tr.Environment.Environment, tr.Environment.Previous = e, &e
		}
		p := v1alpha1.Profile{
			SpecVersion: version,
			Rendering:   int(pick) % (Rendering + 1),
			Source:      "https://eu-1.example.com/",
			Environment: v1alpha1.Environment{ID: environment, Source: environmentSource},
			Extensions:  map[string]string{extension: extensionValue, annotation: value},
		}

		e, err := Render(p, s, tr)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Validate(); err != nil {
			t.Fatal(err)
		}
		if err := conforms(version, e.Event); err != nil {
			t.Fatal(err)
		}
		seen, err := parse(version, e.Data())
		if err != nil {
			t.Fatal(err)
		}
		if err := api.Validate(seen); err != nil {
			t.Fatal(err)
		}
		if e.Subject() != seen.GetSubjectId() || e.ID() != seen.GetId() || e.Source() != seen.GetSource() {
			t.Fatalf("header and body differ: %s", e)
		}
		var content struct {
			Subject struct {
				Content struct{ ArtifactID string }
			}
			CustomData struct{ Notes []Note }
		}
		if err := json.Unmarshal(e.Data(), &content); err != nil {
			t.Fatal(err)
		}
		if e.Incomplete != (len(content.CustomData.Notes) > 0) {
			t.Fatalf("incomplete is %v with notes %v", e.Incomplete, content.CustomData.Notes)
		}
		if purl := content.Subject.Content.ArtifactID; purl != "" {
			if _, err := packageurl.FromString(purl); err != nil {
				t.Fatalf("%s: %v", purl, err)
			}
		}
	})
}
