// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"fmt"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

const fieldArtifactID = "subject.content.artifactId"

// artifactID names what the Revision runs, as a package URL. The schema requires one, and the SDKs
// require that it parses, so there is always one:
//
//   - pkg:oci/<name>@sha256%3A<hex>?repository_url=<registry/path>[&tag=<tag>]
//   - pkg:oci/<name>?repository_url=<registry/path>[&tag=<tag>], if the image was not resolved to
//     a digest
//   - pkg:generic/<service>, if no image can be named
//
// customData.notes explains the second and third.
func artifactID(subject v1alpha1.CDEventSubjectSpec, r *lifecycle.Revision, n *notes) string {
	switch {
	case r == nil:
		n.add(fieldArtifactID, "names the service: no Revision is known")
	case len(r.Images) == 0:
		n.add(fieldArtifactID, "names the service: no image of Revision %s is known", clip(r.Name))
	default:
		// A service is deployed from one artifact (CDEvents continuous-deployment.md, service): the
		// image of the serving container, which comes first. Sidecars are in customData.
		image := r.Images[0]
		ref, ok := imageReference(image)
		if !ok {
			n.add(fieldArtifactID, "names the service: %q is not an image reference", clip(image.Image))
			break
		}
		if ref.digest == "" {
			n.add(fieldArtifactID, "has no version: %q was not resolved to a digest", clip(image.Image))
		}
		return ociPURL(ref)
	}
	return genericPURL(subject.Name)
}

// imagePURL names an image where the name is optional.
func imagePURL(r *lifecycle.Revision) string {
	if r == nil || len(r.Images) == 0 {
		return ""
	}
	ref, ok := imageReference(r.Images[0])
	if !ok {
		return ""
	}
	return ociPURL(ref)
}

// imageReference combines the specified reference with the resolved one.
func imageReference(i lifecycle.Image) (reference, bool) {
	asked, askedOK := canonicalReference(i.Image)
	resolved, resolvedOK := canonicalReference(i.Digest)
	switch {
	case resolvedOK && resolved.digest != "":
		if askedOK && resolved.tag == "" && asked.repository == resolved.repository {
			resolved.tag = asked.tag
		}
		return resolved, true
	case askedOK:
		return asked, true
	default:
		return resolved, resolvedOK
	}
}

// ociPURL writes a package URL of type oci (purl-spec, types/oci). It is written by hand because
// receivers compare it as text with the artifactId of the build's events: it must look like the
// examples of CDEvents, with "%3A" in the version, and not change with a library.
func ociPURL(r reference) string {
	purl := "pkg:oci/" + escapePURL(strings.ToLower(r.name()), "")
	if r.digest != "" {
		purl += "@" + escapePURL(r.digest, "")
	}
	purl += "?repository_url=" + escapePURL(r.repository, "/:")
	if r.tag != "" {
		purl += "&tag=" + escapePURL(r.tag, "")
	}
	return purl
}

// genericPURL writes a package URL of type generic (purl-spec, types/generic).
func genericPURL(name string) string {
	if name == "" {
		name = "unknown"
	}
	return "pkg:generic/" + escapePURL(name, "")
}

// escapePURL percent-encodes all but unreserved characters and those in keep (purl-spec, Character
// encoding).
func escapePURL(s, keep string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if alphanumeric(c) || strings.IndexByte("-._~"+keep, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}
