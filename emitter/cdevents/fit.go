package cdevents

// maxKnative bounds customData.knative in bytes of JSON. Receivers need not take
// events above 64 KiB (CloudEvents spec.md, Size Limits), and one that answers
// "too large" would make the event a lost one. The rest is what annotations may
// add, which is bounded too.
const maxKnative = 24 << 10

// fit leaves out details until the event is small enough: first what describes
// the past, then what a receiver can look up by the names that stay.
func (d *CustomData) fit(said *notes) {
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
			said.add("customData.knative."+detail.field, "left out: the event would be too large")
		}
	}
}

// size is that of k in an event. Strings and numbers can always be encoded.
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
