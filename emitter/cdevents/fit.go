package cdevents

// maxKnative bounds customData.knative in bytes of JSON. Receivers need not accept events above 64
// KiB (CloudEvents spec.md, Size Limits), and one that rejects an event as too large loses it. The
// rest is for annotations, which are bounded too.
const maxKnative = 24 << 10

// fit drops details until the event is small enough: first those of the past, then what a receiver
// can look up by the remaining names.
func (d *CustomData) fit(n *notes) {
	k := &d.Knative
	for _, detail := range []struct {
		field string
		omit  func()
	}{
		{"previousTraffic", func() { k.PreviousTraffic = nil }},
		{"previousRevision.images", func() { k.PreviousRevision = k.PreviousRevision.withoutImages() }},
		{"urls", func() { k.URLs = nil }},
		{"traffic", func() { k.Traffic = nil }},
		{"revision.images", func() { k.Revision = k.Revision.withoutImages() }},
	} {
		if size(k) <= maxKnative {
			return
		}
		before := size(k)
		detail.omit()
		if size(k) < before {
			n.add("customData.knative."+detail.field, "left out: the event would be too large")
		}
	}
}

// size returns the size of k in an event. Strings and numbers always encode.
func size(k *Knative) int {
	b, err := encode(k)
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
