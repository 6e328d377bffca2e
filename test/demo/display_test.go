// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestReadFindsEventsInTheLogOfEventDisplay(t *testing.T) {
	log, err := os.Open("testdata/event_display.log")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	var got []announced
	if err := read(log, func(e announced) { got = append(got, e) }); err != nil {
		t.Fatal(err)
	}
	want := []announced{
		{
			at:  time.Date(2026, 11, 21, 10, 0, 1, 5e8, time.UTC),
			typ: "dev.cdevents.service.deployed.0.3.0", short: "service.deployed",
			subject: "service/cdevents-demo/shop", uid: "one",
			artifact: "pkg:oci/app@sha256%3Aabc?repository_url=registry.example.com/app",
			story:    "shop is ready for the first time, with shop-00001",
		},
		{
			at:  time.Date(2026, 11, 21, 10, 0, 2, 0, time.UTC),
			typ: "dev.cdeventsx.knative-traffic.shifted.0.1.0", short: "traffic.shifted",
			subject: "service/cdevents-demo/shop", uid: "one",
			story: "the traffic split is now: 90 % to shop-00001, 10 % to shop-00002",
		},
	}
	if len(got) != len(want) {
		t.Fatalf("got %d events, want %d: %+v", len(got), len(want), got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("event %d:\ngot  %+v\nwant %+v", i, got[i], want[i])
		}
	}
}

func TestArtifactIsShort(t *testing.T) {
	for purl, want := range map[string]string{
		"pkg:oci/app@sha256%3A0123456789abcdef0123?repository_url=r.example.com/x/app&tag=one": "app@sha256:0123456789ab… in r.example.com/x/app",
		"pkg:oci/app?repository_url=r.example.com/app":                                         "app in r.example.com/app",
		"pkg:generic/shop": "pkg:generic/shop",
		"pkg:oci/%zz":      "pkg:oci/%zz",
	} {
		if got := artifact(purl); got != want {
			t.Errorf("%s: got %q, want %q", purl, got, want)
		}
	}
}

func TestReadReportsInvalidData(t *testing.T) {
	err := read(strings.NewReader("☁️  cloudevents.Event\nData,\n  {\n    what?\n  }\n"), func(announced) {})
	if err == nil || !strings.Contains(err.Error(), "what?") {
		t.Errorf("got error %v, want one that shows the text", err)
	}
}

func TestScreenIsPlainWithoutATerminal(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if colourful(f) {
		t.Error("a file has colours")
	}
	var b strings.Builder
	s := newScreen(&b, false)
	s.event(announced{short: "service.removed", story: "shop was deleted"})
	s.traffic(measured{requests: 10, shares: []shareOf{{"a", 0.9}, {"b", 0.1}}})
	if out := b.String(); strings.Contains(out, "\x1b") || !strings.Contains(out, "shop was deleted") || !strings.Contains(out, " 10.0 %  b") || !strings.Contains(out, "██··") {
		t.Errorf("got:\n%s", out)
	}
}

func TestPValue(t *testing.T) {
	for p, want := range map[float64]string{0: "p < 0.0001", 0.00009: "p < 0.0001", 0.0001: "p = 0.0001", 0.05: "p = 0.0500", 1: "p = 1.0000"} {
		if got := pValue(p); got != want {
			t.Errorf("%v: %s, want %s", p, got, want)
		}
	}
}

func TestEventOfAnEnvironment(t *testing.T) {
	got, err := parse([]byte(`{"context": {"type": "dev.cdevents.environment.modified.0.3.0", "timestamp": "2026-11-23T10:00:00Z"},
		"subject": {"id": "cluster.cluster.x-k8s.io/cdevents-demo/prod"},
		"customData": {"environment": {"name": "prod", "uid": "u", "version": "v1.33.1", "previous": {"version": "v1.32.4"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got.uid != "u" || got.short != "environment.modified" || got.story != "prod went from Kubernetes v1.32.4 to v1.33.1" {
		t.Errorf("got %+v", got)
	}
	if s := short("dev.cdeventsx.clusterapi-cluster.created.0.1.0"); s != "clusterapi-cluster.created" {
		t.Errorf("the request is shown as %s", s)
	}
}
