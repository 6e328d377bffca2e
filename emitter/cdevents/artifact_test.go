// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"encoding/json"
	"strings"
	"testing"

	packageurl "github.com/package-url/packageurl-go"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// artifactOf renders a deployment of images and returns its artifactId.
func artifactOf(t *testing.T, r *lifecycle.Revision) (string, CustomData) {
	t.Helper()
	tr := transitionOf(t, lifecycle.Deployed)
	tr.Revision = r
	e := render(t, profile(Version05), tr)
	if err := conforms(Version05, e); err != nil {
		t.Fatal(err)
	}
	var body struct {
		Subject struct {
			Content struct{ ArtifactID string }
		}
		CustomData CustomData
	}
	if err := json.Unmarshal(e.Data(), &body); err != nil {
		t.Fatal(err)
	}
	return body.Subject.Content.ArtifactID, body.CustomData
}

func image(asked, resolved string) *lifecycle.Revision {
	return &lifecycle.Revision{Name: "cart-00001", Images: []lifecycle.Image{{Image: asked, Digest: resolved}}}
}

func TestArtifactID(t *testing.T) {
	long := strings.Repeat("a", 300)
	for name, tt := range map[string]struct {
		revision *lifecycle.Revision
		want     string
		// note is part of customData.notes, if anything is expected.
		note string
	}{
		"resolved": {
			revision: image("registry.example.com/shop/cart:1.4.2", "registry.example.com/shop/cart@"+digest1),
			want:     "pkg:oci/cart@sha256%3A" + digest1[7:] + "?repository_url=registry.example.com/shop/cart&tag=1.4.2",
		},
		"resolved without a tag": {
			revision: image("registry.example.com/shop/cart", "registry.example.com/shop/cart@"+digest1),
			want:     "pkg:oci/cart@sha256%3A" + digest1[7:] + "?repository_url=registry.example.com/shop/cart",
		},
		"resolved to another repository: its tag is unknown": {
			revision: image("mirror.example.com/cart:1.4.2", "registry.example.com/shop/cart@"+digest1),
			want:     "pkg:oci/cart@sha256%3A" + digest1[7:] + "?repository_url=registry.example.com/shop/cart",
		},
		"a short name, as Serving resolves it": {
			revision: image("nginx:1.27", "index.docker.io/library/nginx@"+digest1),
			want:     "pkg:oci/nginx@sha256%3A" + digest1[7:] + "?repository_url=index.docker.io/library/nginx&tag=1.27",
		},
		"a short name, not resolved": {
			revision: image("nginx:1.27", ""),
			want:     "pkg:oci/nginx?repository_url=index.docker.io/library/nginx&tag=1.27",
			note:     "was not resolved to a digest",
		},
		"an organization": {
			revision: image("shop/cart:1", ""),
			want:     "pkg:oci/cart?repository_url=index.docker.io/shop/cart&tag=1",
			note:     "was not resolved to a digest",
		},
		"a local registry with a port": {
			revision: image("localhost:5000/cart:dev", "localhost:5000/cart@"+digest2),
			want:     "pkg:oci/cart@sha256%3A" + digest2[7:] + "?repository_url=localhost:5000/cart&tag=dev",
		},
		"a registry by IPv6 address": {
			revision: image("[fd00::1]:5000/cart", ""),
			want:     "pkg:oci/cart?repository_url=%5Bfd00::1%5D:5000/cart",
			note:     "was not resolved to a digest",
		},
		"pinned by the user, not resolved": {
			revision: image("registry.example.com/cart:2@"+digest2, ""),
			want:     "pkg:oci/cart@sha256%3A" + digest2[7:] + "?repository_url=registry.example.com/cart&tag=2",
		},
		"neither tag nor digest": {
			revision: image("registry.example.com/cart", ""),
			want:     "pkg:oci/cart?repository_url=registry.example.com/cart",
			note:     "was not resolved to a digest",
		},
		"a broken digest": {
			revision: image("registry.example.com/cart:2", "registry.example.com/cart@sha256:123"),
			want:     "pkg:oci/cart?repository_url=registry.example.com/cart&tag=2",
			note:     "was not resolved to a digest",
		},
		"only the resolved name, without a digest": {
			revision: image("", "registry.example.com/cart"),
			want:     "pkg:oci/cart?repository_url=registry.example.com/cart",
			note:     "was not resolved to a digest",
		},
		"Docker Hub by its old name": {
			revision: image("docker.io/acme/hello:1.4.2", "index.docker.io/acme/hello@"+digest1),
			want:     "pkg:oci/hello@sha256%3A" + digest1[7:] + "?repository_url=index.docker.io/acme/hello&tag=1.4.2",
		},
		"an official image of Docker Hub by its old name": {
			revision: image("docker.io/nginx:1.25", "index.docker.io/library/nginx@"+digest1),
			want:     "pkg:oci/nginx@sha256%3A" + digest1[7:] + "?repository_url=index.docker.io/library/nginx&tag=1.25",
		},
		"Docker Hub with tag and digest": {
			revision: image("docker.io/acme/hello:1.4.2@"+digest1, "docker.io/acme/hello:1.4.2@"+digest1),
			want:     "pkg:oci/hello@sha256%3A" + digest1[7:] + "?repository_url=index.docker.io/acme/hello&tag=1.4.2",
		},
		"no image":         {revision: image("", ""), want: "pkg:generic/cart", note: "is not an image reference"},
		"no images":        {revision: &lifecycle.Revision{Name: "cart-00001"}, want: "pkg:generic/cart", note: "no image of Revision cart-00001"},
		"no Revision":      {want: "pkg:generic/cart", note: "no Revision is known"},
		"upper case":       {revision: image("Registry.example.com/Cart", ""), want: "pkg:generic/cart", note: "is not an image reference"},
		"a header in it":   {revision: image("cart\r\nce-id: 1", ""), want: "pkg:generic/cart", note: "is not an image reference"},
		"a query in it":    {revision: image("cart?tag=x&y#z", ""), want: "pkg:generic/cart", note: "is not an image reference"},
		"much too long":    {revision: image(long, ""), want: "pkg:generic/cart", note: "aaa…"},
		"a tag too long":   {revision: image("cart:"+long, ""), want: "pkg:generic/cart", note: "is not an image reference"},
		"an unknown hash":  {revision: image("cart@md5:d41d8cd98f00b204e9800998ecf8427e", ""), want: "pkg:generic/cart", note: "is not"},
		"an empty path":    {revision: image("registry.example.com/", ""), want: "pkg:generic/cart", note: "is not an image reference"},
		"not valid UTF-8":  {revision: image("cart\xff", ""), want: "pkg:generic/cart", note: "is not an image reference"},
		"a host with user": {revision: image("me@registry.example.com/cart", ""), want: "pkg:generic/cart", note: "is not"},
	} {
		t.Run(name, func(t *testing.T) {
			got, data := artifactOf(t, tt.revision)
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if _, err := packageurl.FromString(got); err != nil {
				t.Error(err)
			}
			switch {
			case tt.note == "" && len(data.Notes) > 0:
				t.Errorf("got notes %v, want none", data.Notes)
			case tt.note != "" && (len(data.Notes) != 1 || data.Notes[0].Field != fieldArtifactID ||
				!strings.Contains(data.Notes[0].Message, tt.note)):
				t.Errorf("got notes %v, want one with %q", data.Notes, tt.note)
			}
		})
	}
}

// Docker Hub has several names. All of them are one repository.
func TestDockerHubIsOneRepository(t *testing.T) {
	for _, asked := range []string{
		"nginx", "library/nginx", "docker.io/nginx", "docker.io/library/nginx", "index.docker.io/nginx", "index.docker.io/library/nginx",
		"registry-1.docker.io/library/nginx",
	} {
		if got, _ := artifactOf(t, image(asked+":1.25", "")); got != "pkg:oci/nginx?repository_url=index.docker.io/library/nginx&tag=1.25" {
			t.Errorf("%s is %s", asked, got)
		}
	}
}

// A library must read from a package URL what was put into it.
func TestArtifactIDIsReadBack(t *testing.T) {
	got, _ := artifactOf(t, image("localhost:5000/team/cart:v1_2", "localhost:5000/team/cart@"+digest1))
	purl, err := packageurl.FromString(got)
	if err != nil {
		t.Fatal(err)
	}
	if purl.Type != "oci" || purl.Namespace != "" || purl.Name != "cart" || purl.Version != digest1 {
		t.Errorf("read back as %+v", purl)
	}
	q := purl.Qualifiers.Map()
	if len(q) != 2 || q["repository_url"] != "localhost:5000/team/cart" || q["tag"] != "v1_2" {
		t.Errorf("qualifiers read back as %v", q)
	}
}

// The previous artifact is optional, so it is never made up.
func TestPreviousArtifactIDIsNeverMadeUp(t *testing.T) {
	tr := transitionOf(t, lifecycle.Upgraded)
	tr.Previous = image("not an image", "")
	if e := render(t, profile(Version05), tr); strings.Contains(string(e.Data()), "previousArtifactId") {
		t.Errorf("made up: %s", e.Data())
	}
}
