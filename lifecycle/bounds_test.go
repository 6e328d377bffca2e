// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Whatever one tenant writes into a Service, half of the journal's 512 KiB stays free for events.
func TestLargeServiceIsBounded(t *testing.T) {
	t.Parallel()
	var m Memory
	at := time.Unix(0, 0)
	wide := strings.Repeat("w", 300)
	for generation := range int64(60) {
		s := Snapshot{Generation: generation + 1, Ready: true, Revisions: map[string]*Revision{}, Labels: map[string]string{}}
		for i := range 1000 {
			s.Labels[fmt.Sprintf("%s%04d", wide, i)] = strings.Repeat("v", 63)
		}
		s.Labels = BoundLabels(s.Labels)
		r := Revision{Name: fmt.Sprintf("cart-%05d", generation), UID: types.UID(wide[:36]), Generation: generation + 1, Ready: true, Template: wide[:24]}
		for i := range 400 {
			r.Images = append(r.Images, Image{Container: fmt.Sprint(i), Image: wide, Digest: "r@sha256:" + wide[:64]})
		}
		r.Images = BoundImages(r.Images)
		r.Annotations = map[string]string{"a": strings.Repeat("a", 2<<10), "b": strings.Repeat("b", 2<<10)}
		s.Revisions[r.Name] = &r
		urls := []string{"https://cart.example.com"}
		for i := range 4000 {
			urls = append(urls, fmt.Sprintf("https://%s-%04d.example.com", wide[:60], i))
		}
		s.Route = &Route{Effective: true, URLs: BoundURLs(urls), Traffic: []Share{{Revision: r.Name, Percent: 100}}}
		at = at.Add(time.Minute)
		result := Next(DefaultRules, m, s, at)
		m = result.Memory
		for _, tr := range result.Transitions {
			if raw, err := json.Marshal(tr); err != nil || len(raw) > 32<<10 {
				t.Fatalf("transition has %d bytes (%v)", len(raw), err)
			}
		}
	}
	raw, err := json.Marshal(m)
	if err != nil || len(raw) > 256<<10 {
		t.Errorf("memory has %d bytes (%v)", len(raw), err)
	}
	if len(m.Revisions) < 8 || m.Primary != "cart-00059" || len(m.Former) == 0 {
		t.Errorf("memory has %d Revisions, %d former primaries and primary %s", len(m.Revisions), len(m.Former), m.Primary)
	}
}

func TestBoundsKeepUsualURLsAndImages(t *testing.T) {
	t.Parallel()
	urls := []string{"https://cart.example.com", "https://green-cart.example.com"}
	images := []Image{{Image: "app:1"}, {Container: "sidecar", Image: "proxy:2"}}
	if got := BoundURLs(urls); len(got) != 2 {
		t.Errorf("URLs %q", got)
	}
	if got := BoundImages(images); len(got) != 2 {
		t.Errorf("images %v", got)
	}
	if got := BoundImages([]Image{{Image: strings.Repeat("i", 5<<10)}, {Image: "app:1"}}); len(got) != 1 || got[0].Image != "app:1" {
		t.Errorf("images %v", got)
	}
}

func TestEditedMemoryIsRejected(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"traffic":[{}]}`: "traffic[0] names no Revision",
		`{"traffic":[{"revision":"a","percent":100}, null]}`:     "traffic[1] names no Revision",
		`{"held":{"previous":[{"percent":5}]}}`:                  "held.previous[0] names no Revision",
		`{"traffic":[{"revision":"a","percent":100}],"held":{}}`: "<nil>",
	} {
		var m Memory
		if err := json.Unmarshal([]byte(raw), &m); err != nil {
			t.Fatal(err)
		}
		if err := m.Check(); fmt.Sprint(err) != want {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
	}
}

// A Service may divide its traffic among a hundred Revisions, and annotations may need escaping. Half
// of the journal's 512 KiB stays free all the same.
func TestManyRevisionsWithTrafficAreBounded(t *testing.T) {
	t.Parallel()
	for _, escaped := range []string{"a", "<", "\x01", "\"", "\u2028"} {
		var m Memory
		annotations := map[string]string{}
		for _, name := range []string{"x", "y"} {
			annotations[name] = strings.Repeat(escaped, (2<<10)/JSONSize(escaped))
		}
		s := Snapshot{Ready: true, Revisions: map[string]*Revision{}, Route: &Route{Effective: true}}
		for generation := range int64(100) {
			r := Revision{Name: fmt.Sprintf("cart-%05d", generation), UID: types.UID(strings.Repeat("u", 36)), Generation: generation + 1, Ready: true, Template: fmt.Sprint(generation)}
			for i := range 40 {
				r.Images = append(r.Images, Image{Container: fmt.Sprint(i), Image: "r/" + strings.Repeat("i", 200), Digest: "r@sha256:" + strings.Repeat("d", 64)})
			}
			r.Images, r.Annotations = BoundImages(r.Images), annotations
			s.Revisions[r.Name] = &r
			s.Route.Traffic = append(s.Route.Traffic, Share{Revision: r.Name, Percent: 1})
		}
		m = Next(DefaultRules, m, s, time.Unix(0, 0)).Memory
		if raw, err := json.Marshal(m); err != nil || len(raw) > 256<<10 {
			t.Errorf("%q: memory has %d bytes (%v)", escaped, len(raw), err)
		}
		if len(m.Revisions) != 100 || len(m.Revisions[m.Primary].Images) == 0 || len(m.newest().Images) == 0 {
			t.Errorf("%q: memory has %d Revisions, or the primary or the newest lacks its images", escaped, len(m.Revisions))
		}
		// The next one is judged by all that is known of both.
		s.Route.Traffic = []Share{{Revision: "cart-00050", Percent: 100}}
		if out := Next(DefaultRules, m, s, time.Unix(60, 0)).Transitions; len(out) != 1 || out[0].Type != Upgraded || len(out[0].Revision.Images) == 0 || len(out[0].Previous.Images) == 0 {
			t.Errorf("%q: %+v", escaped, out)
		}
	}
}

func TestJSONSize(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "abc", `"\`, "<>&", "\u2028\u2029", "é日𝄞", "\x7f", "a\xffb"} {
		raw, err := json.Marshal(s)
		if got := JSONSize(s); err != nil || got != len(raw)-2 {
			t.Errorf("%q: %d bytes, want %d (%v)", s, got, len(raw)-2, err)
		}
	}
	if got := JSONSize("\n\x00"); got != 12 { // an upper bound: some control characters have short forms
		t.Errorf("control characters: %d bytes", got)
	}
}

// Images that are left out are compared all the same: a template whose last sidecar has other content
// is no rollback, and one that equals an earlier primary is.
func TestImagesThatAreLeftOutAreCompared(t *testing.T) {
	t.Parallel()
	// The digest of the hundredth image repeats this digit.
	wide := func(r Revision, last string) Revision {
		var all []Image
		for i := range 100 {
			all = append(all, Image{Container: fmt.Sprint(i), Image: "registry.example.com/team/app:1", Digest: "registry.example.com/team/app@sha256:" + strings.Repeat("0", 64)})
		}
		if all[99].Digest = ""; last != "" {
			all[99].Digest = "registry.example.com/team/app@sha256:" + strings.Repeat(last, 64)
		}
		all[99].Container = strings.Repeat("c", 63)
		r.SetImages(all)
		if len(r.Images) == len(all) || len(r.Images) == 0 || len(all) != 100 {
			t.Fatalf("%d of %d images", len(r.Images), len(all))
		}
		return r
	}
	for last, want := range map[string]Type{"1": RolledBack, "2": Upgraded, "": Upgraded} {
		first, again := wide(rev("cart-1", 1, "a"), "1"), wide(rev("cart-3", 3, "a"), last)
		s := newStory(t)
		s.see(Snapshot{Generation: 1}, Created)
		s.see(routed(revs(first), to("cart-1", 100)), RevisionReady, Deployed, Published)
		s.see(routed(revs(first, r2), to("cart-2", 100)), RevisionReady, Upgraded)
		s.see(routed(revs(first, r2, again), to("cart-3", 100)), RevisionReady, want)
	}
}

// A sidecar's image must not stand for what the Revision runs.
func TestNoImageIsKeptWithoutTheFirst(t *testing.T) {
	t.Parallel()
	var r Revision
	r.SetImages([]Image{{Image: strings.Repeat("i", 5<<10)}, {Image: "proxy:2"}})
	if len(r.Images) != 0 || r.Digests != unresolved {
		t.Errorf("%v, %q", r.Images, r.Digests)
	}
	r.SetImages([]Image{{Image: "app:1"}, {Image: "proxy:2"}})
	if len(r.Images) != 2 || r.Digests != "" {
		t.Errorf("%v, %q", r.Images, r.Digests)
	}
}

// A thousand images with names of one letter take more room for their fields than for their names.
func TestManySmallImagesAreBounded(t *testing.T) {
	t.Parallel()
	var images []Image
	for i := range 5000 {
		images = append(images, Image{Container: fmt.Sprint(i % 10), Image: "a"})
	}
	var r Revision
	r.SetImages(images)
	if raw, err := json.Marshal(r.Images); err != nil || len(raw) > 4<<10 || len(r.Images) < 80 {
		t.Errorf("%d images in %d bytes (%v)", len(r.Images), len(raw), err)
	}
}
