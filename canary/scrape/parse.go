// SPDX-License-Identifier: Apache-2.0

package scrape

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

const (
	openMetrics  = "application/openmetrics-text"
	processStart = "process_start_time_seconds"
)

// errSeries says that an exposition has more series with a meaning than allowed.
var errSeries = errors.New("too many series")

// largest is the largest value that counts as a count. No application counts so far, and sums of larger values over all
// series and pods could become infinite, and their differences not a number.
const largest = 1e18

// mostHints limits the hints about series that could mean more.
const mostHints = 3

// Parse reads an exposition with at most most series that have a meaning. An empty content type means
// classic text, because Kamon sends none. It skips series that no mapping names before it reads their
// labels.
func Parse(body []byte, contentType string, reader *mapping.Reader, most int) (Exposition, error) {
	return NewMemory(reader).Parse(body, contentType, most)
}

// Parse is the function Parse with this Memory. It keeps nothing of the body.
func (m *Memory) Parse(body []byte, contentType string, most int) (Exposition, error) {
	p := parsing{memory: m, most: most, values: make([]map[mapping.Key]float64, len(m.reader.Sources))}
	m.reading++
	defer func() { m.tidy(bytes.Count(body, []byte("\n")), p.kept) }()
	if err := m.read(body, contentType, most, p.take); err != nil {
		return Exposition{}, err
	}
	for i, v := range p.values {
		for k := range p.spoilt {
			delete(v, k)
		}
		m.sizes[i] = len(v)
		if len(v) > 0 {
			p.out.Sources = append(p.out.Sources, Source{Name: m.reader.Sources[i].Name, Values: v})
		}
	}
	return p.out, nil
}

// parsing is one call of Parse.
type parsing struct {
	memory *Memory
	most   int
	out    Exposition
	// kept counts the series with a meaning, and values sums them up by source.
	kept   int
	values []map[mapping.Key]float64
	// spoilt holds the sums with a summand that is not a number. They are left out as if they were
	// not exported, so they neither fall nor grow.
	spoilt map[mapping.Key]bool
}

// take adds one series.
func (p *parsing) take(l line, value float64) error {
	if l.start && value > 0 && !math.IsInf(value, 0) {
		p.out.Start = value
		return nil
	}
	if l.series == nil {
		return nil
	}
	if l.series.reading == p.memory.reading {
		p.out.Duplicates++ // the first one counts
		return nil
	}
	l.series.reading = p.memory.reading
	if p.kept++; p.kept > p.most {
		return fmt.Errorf("more than %d relevant series: %w", p.most, errSeries)
	}
	if !p.memory.fits(p.kept) {
		return fmt.Errorf("more than %d relevant series, and no room for more over all pods: %w", p.kept-1, errSeries)
	}
	if l.hint != "" && len(p.out.Hints) < mostHints && !slices.Contains(p.out.Hints, l.hint) {
		p.out.Hints = append(p.out.Hints, l.hint)
	}
	if math.IsNaN(value) || value < 0 || value > largest {
		p.out.Rejected++
		if p.spoilt == nil {
			p.spoilt = map[mapping.Key]bool{}
		}
		for _, means := range l.means {
			p.spoilt[means.key] = true
		}
		return nil
	}
	for _, means := range l.means {
		if p.values[means.source] == nil {
			p.values[means.source] = make(map[mapping.Key]float64, p.memory.sizes[means.source])
		}
		p.values[means.source][means.key] += value * means.times
	}
	return nil
}

// read takes every series: first the known ones, then those that the parser finds in the rest.
func (m *Memory) read(body []byte, contentType string, most int, take func(line, float64) error) error {
	classic := !isOpenMetrics(contentType)
	if classic { // OpenMetrics prescribes an order and an end, which only its parser can check
		var err error
		if body, err = m.recall(body, take); err != nil {
			return err
		}
	}
	p := parser(body, classic)
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the exposition: %w", err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		text, _, value := p.Series()
		l, ok := m.known[fingerprintOf(text)]
		if !ok {
			l = m.learn(text, p, most)
		}
		if err := take(l, value); err != nil {
			return err
		}
	}
	if classic {
		m.accept(body, most)
	}
	return nil
}

func isOpenMetrics(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && kind == openMetrics
}

func parser(body []byte, classic bool) textparse.Parser {
	symbols := labels.NewSymbolTable()
	if classic {
		return textparse.NewPromParser(body, symbols, false)
	}
	return textparse.NewOpenMetricsParser(body, symbols)
}
