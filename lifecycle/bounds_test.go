package lifecycle

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Whatever one tenant writes into a Service, half of the journal's 512 KiB stays free for events.
func TestLargeServiceIsBounded(t *testing.T) {
	t.Parallel()
	var m Memory
	at := time.Unix(0, 0)
	wide := strings.Repeat("w", 300)
	for generation := range int64(60) {
		s := Snapshot{Generation: generation + 1, Ready: true, Revisions: map[string]Revision{}, Labels: map[string]string{}}
		for i := range 1000 {
			s.Labels[fmt.Sprintf("%s%04d", wide, i)] = strings.Repeat("v", 63)
		}
		s.Labels = BoundLabels(s.Labels)
		r := Revision{Name: fmt.Sprintf("cart-%05d", generation), UID: wide[:36], Generation: generation + 1, Ready: true, Template: wide[:24]}
		for i := range 400 {
			r.Images = append(r.Images, Image{Container: fmt.Sprint(i), Image: wide, Digest: "r@sha256:" + wide[:64]})
		}
		r.Images = BoundImages(r.Images)
		r.Annotations = map[string]string{"a": strings.Repeat("a", 2<<10), "b": strings.Repeat("b", 2<<10)}
		s.Revisions[r.Name] = r
		urls := []string{"https://cart.example.com"}
		for i := range 4000 {
			urls = append(urls, fmt.Sprintf("https://%s-%04d.example.com", wide[:60], i))
		}
		s.Route = &Route{Effective: true, Ready: true, URLs: BoundURLs(urls), Traffic: []Share{{Revision: r.Name, Percent: 100}}}
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
