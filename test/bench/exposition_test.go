// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
)

// Each port has exactly seriesEach series, and the controller's parsers read the truth from them.
func TestExpositions(t *testing.T) {
	for name, c := range map[string]struct {
		e      *exposition
		reader *mapping.Reader
		kept   int
	}{
		"application": {application(7), mapping.NewReader(mapping.Neutral()), kept.application},
		"queue-proxy": {queueProxy("198.18.0.1"), mapping.Entry(), kept.queueProxy},
	} {
		if len(c.e.series) != seriesEach {
			t.Errorf("%s has %d series", name, len(c.e.series))
		}
		read, err := scrape.Parse(c.e.text(nil, 12345), "text/plain; version=0.0.4", c.reader, 1000)
		if err != nil || len(read.Sources) != 1 || read.Start != started || read.Rejected != 0 {
			t.Fatalf("%s: %+v, %v", name, read, err)
		}
		if got := len(read.Sources[0].Values); got != c.kept {
			t.Errorf("%d values of %s are kept, want %d", got, name, c.kept)
		}
		sum := 0.0
		for k, v := range read.Sources[0].Values {
			if k.Figure == mapping.Finished {
				sum += v
			}
		}
		if want := c.e.truth(12345); sum != want {
			t.Errorf("%s has %v handled requests, want %v", name, sum, want)
		}
	}
}

// No counter decreases, and no bucket exceeds the next one.
func TestExpositionsGrow(t *testing.T) {
	for _, e := range []*exposition{application(0), queueProxy("198.18.0.1")} {
		for _, s := range e.series {
			if s.at(1000) < s.at(999) || s.fixed == 0 && s.share > 1e-3 && s.at(10_000) == 0 {
				t.Errorf("%s does not grow", s.text)
			}
		}
	}
	rows := histogram("", 1)
	for i := 1; i < len(rows)-2; i++ {
		if rows[i].share < rows[i-1].share {
			t.Errorf("bucket %s holds less than the one before", rows[i].labels)
		}
	}
}
