package scrape

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

const (
	openMetrics  = "application/openmetrics-text"
	processStart = "process_start_time_seconds"
)

// errSeries says that an exposition has more series that mean something than allowed.
var errSeries = errors.New("too many series")

// Parse reads an exposition; at most most series that mean something. Without a content type it is classic text: Kamon sends
// none. Series that nobody named are passed over before their labels are read.
func Parse(body []byte, contentType string, reader *mapping.Reader, most int) (Exposition, error) {
	p := parser(body, contentType)
	var out Exposition
	values := make([]map[mapping.Key]float64, len(reader.Sources))
	// A sum with a summand that is no number is none: it is left out as if it had
	// not been told, so that it neither falls nor grows.
	var spoilt map[mapping.Key]bool
	kept := 0
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Exposition{}, fmt.Errorf("reading the exposition: %w", err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		series, _, value := p.Series()
		name := series
		if i := bytes.IndexByte(series, '{'); i >= 0 {
			name = series[:i]
		}
		if string(name) == processStart && value > 0 && !math.IsInf(value, 0) {
			out.Start = value
			continue
		}
		if !reader.Wants(name) {
			continue
		}
		if kept++; kept > most {
			return Exposition{}, fmt.Errorf("more than %d series that mean something: %w", most, errSeries)
		}
		var l labels.Labels
		p.Labels(&l)
		bad := math.IsNaN(value) || math.IsInf(value, 0) || value < 0
		if bad {
			out.Rejected++
		}
		reader.Read(string(name), l, func(source int, k mapping.Key) {
			if bad {
				if spoilt == nil {
					spoilt = map[mapping.Key]bool{}
				}
				spoilt[k] = true
				return
			}
			if values[source] == nil {
				values[source] = map[mapping.Key]float64{}
			}
			add(values[source], k, value)
		})
	}
	for i, v := range values {
		for k := range spoilt {
			delete(v, k)
		}
		if len(v) > 0 {
			out.Sources = append(out.Sources, Source{Name: reader.Sources[i].Name, Values: v})
		}
	}
	return out, nil
}

// add keeps nothing of the series' own text: it would keep all of its labels.
func add(values map[mapping.Key]float64, k mapping.Key, value float64) {
	if sum, ok := values[k]; ok {
		values[k] = sum + value
		return
	}
	k.Entity, k.Outcome, k.Shard = strings.Clone(k.Entity), strings.Clone(k.Outcome), strings.Clone(k.Shard)
	values[k] = value
}

func parser(body []byte, contentType string) textparse.Parser {
	symbols := labels.NewSymbolTable()
	if kind, _, err := mime.ParseMediaType(contentType); err == nil && kind == openMetrics {
		return textparse.NewOpenMetricsParser(body, symbols)
	}
	return textparse.NewPromParser(body, symbols, false)
}
