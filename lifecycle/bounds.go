package lifecycle

import "slices"

// Limits, in bytes, on what a memory and each transition in the journal hold of an object.
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
		if size += len(u); size > maxURLs {
			return slices.Clip(urls[:i])
		}
	}
	return urls
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

func (i Image) size() int { return len(i.Container) + len(i.Image) + len(i.Digest) }

// size estimates how many bytes a Revision takes.
func (k KnownRevision) size() int {
	n := len(k.Name) + len(k.UID) + len(k.Template) + len(k.Stateful) + len(k.Misdeclared)
	for _, i := range k.Images {
		n += i.size()
	}
	for key, v := range k.Annotations {
		n += labelSize(key, v)
	}
	for _, uid := range k.Before {
		n += len(uid)
	}
	return n
}

func (f Former) size() int {
	n := len(f.Name) + len(f.Template)
	for _, d := range f.Digests {
		n += len(d)
	}
	return n
}
