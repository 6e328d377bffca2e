// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"fmt"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// maxEvent is the size that every receiver must accept (CloudEvents spec.md, Size Limits).
const maxEvent = 64 << 10

func TestLargeEventsStayBelowTheLimitOfCloudEvents(t *testing.T) {
	tr := transitionOf(t, lifecycle.Upgraded)
	for i := range 500 {
		long := fmt.Sprintf("%s-%05d", strings.Repeat("n", 57), i)
		tr.Traffic = append(tr.Traffic, lifecycle.Share{Revision: long})
		tr.PreviousTraffic = append(tr.PreviousTraffic, lifecycle.Share{Revision: long})
		tr.URLs = append(tr.URLs, "https://"+long+".example.com")
		image := lifecycle.Image{Container: long, Image: strings.Repeat("\x01", 255), Digest: "x@" + digest1}
		tr.Revision.Images = append(tr.Revision.Images, image)
		tr.Previous.Images = append(tr.Previous.Images, image)
	}
	for _, name := range CarriedAnnotations() {
		tr.Revision.Annotations[name] = strings.Repeat("\x02", maxProvenance)
	}
	tr.Revision.Annotations[AnnotationLinks] = strings.Repeat("K="+strings.Repeat("i", maxContextID)+",", 100)
	tr.Revision.Images[0] = secondRevision().Images[0]

	e := render(t, profile(Version05), tr)
	if len(e.Data()) > maxEvent {
		t.Errorf("the event has %d bytes", len(e.Data()))
	}
	w := read(t, e)
	for _, field := range []string{"previousTraffic", "previousRevision.images", "urls", "traffic", "revision.images"} {
		if !w.noted("customData.knative." + field) {
			t.Errorf("no note on %s", field)
		}
	}
	if k := w.CustomData.Knative; k.Revision.Name != "cart-00002" || k.PreviousRevision.Name != "cart-00001" {
		t.Errorf("the names are missing: %+v", k)
	}
	if !strings.Contains(string(e.Data()), "pkg:oci/cart@sha256") {
		t.Error("the artifact is missing")
	}
}

// Only as much is dropped as needed.
func TestLeastImportantFieldsAreDroppedFirst(t *testing.T) {
	tr := transitionOf(t, lifecycle.Upgraded)
	tr.PreviousTraffic = make([]lifecycle.Share, 2000)
	k := read(t, render(t, profile(Version05), tr)).CustomData.Knative
	if k.PreviousTraffic != nil || k.Traffic == nil || k.URLs == nil || k.Revision.Images == nil {
		t.Errorf("got %+v", k)
	}
}

// Every part has its maximum size, of characters that JSON escapes.
func TestLargestEvent(t *testing.T) {
	tr, p := transitionOf(t, lifecycle.Upgraded), profile(Version05)
	for range 96 {
		tr.URLs = append(tr.URLs, strings.Repeat(`"`, 100))
	}
	for _, name := range CarriedAnnotations() {
		tr.Revision.Annotations[name] = strings.Repeat(`"`, maxProvenance)
	}
	link := strings.Repeat("K", maxLinkKind) + "=" + strings.Repeat(`"`, maxContextID) + ","
	tr.Revision.Annotations[AnnotationLinks] = strings.Repeat(link, maxLinks)
	p.Extensions = map[string]string{}
	for i := range maxNotes {
		p.Extensions[strings.Repeat(`"`, 100+i)] = "x"
	}

	e := render(t, p, tr)
	w := read(t, e)
	if k := w.CustomData; len(k.Knative.URLs) != 97 || len(k.Deployer) != maxProvenance || len(k.Notes) != maxNotes {
		t.Errorf("not the largest event: %d URLs, %d notes", len(k.Knative.URLs), len(k.Notes))
	}
	if len(e.Data()) > maxEvent {
		t.Errorf("the event has %d bytes", len(e.Data()))
	}
	t.Logf("%d bytes", len(e.Data()))
}
