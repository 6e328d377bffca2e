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
	var out Exposition
	values := make([]map[mapping.Key]float64, len(m.reader.Sources))
	// A sum with a summand that is not a number is left out as if it were not exported, so it neither
	// falls nor grows.
	var spoilt map[mapping.Key]bool
	kept := 0
	m.reading++
	take := func(l line, value float64) error {
		if l.start && value > 0 && !math.IsInf(value, 0) {
			out.Start = value
			return nil
		}
		if l.series == nil {
			return nil
		}
		if l.series.reading == m.reading {
			out.Duplicates++ // the first one counts
			return nil
		}
		l.series.reading = m.reading
		if kept++; kept > most {
			return fmt.Errorf("more than %d relevant series: %w", most, errSeries)
		}
		if !m.fits(kept) {
			return fmt.Errorf("more than %d relevant series, and no room for more over all pods: %w", kept-1, errSeries)
		}
		if l.hint != "" && len(out.Hints) < mostHints && !slices.Contains(out.Hints, l.hint) {
			out.Hints = append(out.Hints, l.hint)
		}
		bad := math.IsNaN(value) || math.IsInf(value, 0) || value < 0
		if bad {
			out.Rejected++
		}
		for _, means := range l.means {
			if bad {
				if spoilt == nil {
					spoilt = map[mapping.Key]bool{}
				}
				spoilt[means.key] = true
				continue
			}
			if values[means.source] == nil {
				values[means.source] = make(map[mapping.Key]float64, m.sizes[means.source])
			}
			values[means.source][means.key] += value * means.times
		}
		return nil
	}
	defer func() { m.tidy(bytes.Count(body, []byte("\n")), kept) }()
	if err := m.read(body, contentType, most, take); err != nil {
		return Exposition{}, err
	}
	for i, v := range values {
		for k := range spoilt {
			delete(v, k)
		}
		m.sizes[i] = len(v)
		if len(v) > 0 {
			out.Sources = append(out.Sources, Source{Name: m.reader.Sources[i].Name, Values: v})
		}
	}
	return out, nil
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
