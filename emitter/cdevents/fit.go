// SPDX-License-Identifier: Apache-2.0

package cdevents

// maxKnative bounds customData.knative and customData.environment in bytes of JSON. Receivers need not accept events
// above 64 KiB (CloudEvents spec.md, Size Limits), and one that rejects an event as too large loses it. The rest is for
// annotations, which are bounded too.
const maxKnative = 24 << 10

// detail is a part of an event that may be left out.
type detail struct {
	field string
	omit  func()
}

// fit drops details until the event is small enough: first those of the past, then what a receiver
// can look up by the remaining names.
func (d *CustomData) fit(n *notes) {
	if e := d.Environment; e != nil {
		shrink(e, "environment", e.details(), n)
		return
	}
	k := d.Knative
	shrink(k, "knative", []detail{
		{"previousTraffic", func() { k.PreviousTraffic = nil }},
		{"previousRevision.images", func() { k.PreviousRevision = k.PreviousRevision.withoutImages() }},
		{"urls", func() { k.URLs = nil }},
		{"traffic", func() { k.Traffic = nil }},
		{"revision.images", func() { k.Revision = k.Revision.withoutImages() }},
	}, n)
}

// shrink omits details of a part, in their order, until it is small enough.
func shrink(part any, name string, details []detail, n *notes) {
	for _, detail := range details {
		before := size(part)
		if before <= maxKnative {
			return
		}
		detail.omit()
		if size(part) < before {
			n.add("customData."+name+"."+detail.field, "left out: the event would be too large")
		}
	}
}

// size returns the size of a part in an event. Strings and numbers always encode.
func size(part any) int {
	b, err := encode(part)
	if err != nil {
		return 0
	}
	return len(b)
}

func (r *Revision) withoutImages() *Revision {
	if r == nil {
		return nil
	}
	return &Revision{Name: r.Name, UID: r.UID, Generation: r.Generation}
}
