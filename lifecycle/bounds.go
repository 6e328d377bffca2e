// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
)

// Limits, in bytes of JSON, on what a memory and each transition in the journal hold of an object.
// Kubernetes bounds none of them below the size of an object, and one tenant must leave room in the
// journal for events.
const (
	maxURLs   = 8 << 10
	maxImages = 4 << 10
	// maxKnown covers all Revisions together, maxFormerSize all earlier primaries.
	maxKnown      = 96 << 10
	maxFormerSize = 16 << 10
)

// BoundURLs drops the last URLs if there are too many.
func BoundURLs(urls []string) []string {
	size := 0
	for i, u := range urls {
		if size += len(`"",`) + JSONSize(u); size > maxURLs {
			return slices.Clip(urls[:i])
		}
	}
	return urls
}

// InPod returns the image of a container that is in pods only, without credentials. What is not named by digest was not
// resolved.
func InPod(container, image string) Image {
	i := Image{Container: container, Image: sanitize.WithoutCredentials(image)}
	if strings.Contains(i.Image, "@") {
		i.Digest = i.Image
	}
	return i
}

// BoundImages drops images that are too long, and the last ones if there are too many.
func BoundImages(images []Image) []Image {
	size := 0
	return slices.DeleteFunc(images, func(i Image) bool {
		n := i.size()
		if size+n > maxImages {
			return true
		}
		size += n
		return false
	})
}

// unresolved stands for the digests of images of which one has none.
const unresolved = "unresolved"

// SetImages takes over the images, without credentials and within bounds. The first one names what the Revision runs:
// if it is too long, none is kept.
func (r *Revision) SetImages(all []Image) {
	all = slices.Clone(all)
	for i := range all {
		all[i].Image, all[i].Digest = sanitize.WithoutCredentials(all[i].Image), sanitize.WithoutCredentials(all[i].Digest)
	}
	r.Images, r.Digests = BoundImages(slices.Clone(all)), ""
	if len(r.Images) == len(all) {
		return
	}
	if len(r.Images) > 0 && r.Images[0] != all[0] {
		r.Images = nil
	}
	hash := sha256.New()
	for _, i := range all {
		if i.Digest == "" {
			r.Digests = unresolved
			return
		}
		hash.Write([]byte(i.Digest + "\n"))
	}
	r.Digests = hex.EncodeToString(hash.Sum(nil)[:16])
}

func (i Image) size() int {
	return len(`{"container":"","image":"","digest":""},`) + JSONSize(i.Container) + JSONSize(i.Image) + JSONSize(i.Digest)
}

// JSONSize returns how many bytes s takes within a JSON string. What must be escaped takes up to six
// times its length.
func JSONSize(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			n += len(`\"`)
		case r < ' ' || r == '<' || r == '>' || r == '&' || r == '\u2028' || r == '\u2029' || r == utf8.RuneError:
			n += len(`\u0000`)
		default:
			n += utf8.RuneLen(r)
		}
	}
	return n
}

// size estimates how many bytes a Revision takes.
func (k KnownRevision) size() int {
	n := len(k.Name) + len(k.UID) + len(k.Template) + len(k.Digests) + len(k.Stateful) + JSONSize(k.Misdeclared)
	for _, i := range k.Images {
		n += i.size()
	}
	for key, v := range k.Annotations {
		n += labelSize(key, "") + JSONSize(v)
	}
	for _, uid := range k.Before {
		n += len(uid)
	}
	if k.Replaced != nil {
		n += k.Replaced.size()
	}
	return n
}

// bare drops what a later snapshot shows again.
func (k KnownRevision) bare() KnownRevision {
	k.Images, k.Annotations, k.Misdeclared, k.Replaced = nil, nil, "", nil
	return k
}

func (f Former) size() int {
	n := len(f.Name) + len(f.UID) + len(f.Template)
	for _, d := range f.Digests {
		n += len(`"",`) + len(d)
	}
	return n
}
