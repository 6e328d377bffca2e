package lifecycle

import "slices"

// The bounds of what is remembered of an object and journaled with each transition, in bytes.
// Kubernetes bounds none of them below the size of an object, and what one tenant writes must
// leave room in the journal for events.
const (
	maxURLs   = 8 << 10
	maxImages = 4 << 10
	// maxKnown is for all Revisions together, and maxFormerSize for all earlier primaries.
	maxKnown      = 96 << 10
	maxFormerSize = 16 << 10
)

// BoundURLs leaves out the last URLs if there are too many.
func BoundURLs(urls []string) []string {
	size := 0
	for i, u := range urls {
		if size += len(u); size > maxURLs {
			return slices.Clip(urls[:i])
		}
	}
	return urls
}

// BoundImages leaves out images that are too long, and the last ones if there are too many.
func BoundImages(images []Image) []Image {
	size := 0
	return slices.DeleteFunc(images, func(i Image) bool {
		n := i.weight()
		if size+n > maxImages {
			return true
		}
		size += n
		return false
	})
}

func (i Image) weight() int { return len(i.Container) + len(i.Image) + len(i.Digest) }

// weight is about how many bytes a Revision takes.
func (k Known) weight() int {
	n := len(k.Name) + len(k.UID) + len(k.Template) + len(k.Stateful) + len(k.Misdeclared)
	for _, i := range k.Images {
		n += i.weight()
	}
	for key, v := range k.Annotations {
		n += weighLabel(key, v)
	}
	for _, uid := range k.Before {
		n += len(uid)
	}
	return n
}

func (f Former) weight() int {
	n := len(f.Name) + len(f.Template)
	for _, d := range f.Digests {
		n += len(d)
	}
	return n
}
