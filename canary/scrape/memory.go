package scrape

import (
	"bytes"
	"hash/maphash"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// Memory of one target: the lines that were read before, and what their series mean. An exposition says the same every
// time, but for the values; so only these are read anew, and the parser sees what is new. It is used by one
// reading at a time.
type Memory struct {
	reader *mapping.Reader
	known  map[fingerprint]line
	// series that mean something, by their labels.
	series map[fingerprint]*one
	// reading is the number of the last one.
	reading uint64
	// sizes are how many numbers each source had last.
	sizes []int
	// room is how many series and lines there is room for now.
	room struct{ series, lines int }
	claims
}

// line is what is known of one: a comment and a series that nobody named mean nothing.
type line struct {
	start bool
	means []meaning
	// series is nil if it means nothing. hint is why it means less than it might.
	series *one
	hint   string
}

// one series, however its labels are written.
type one struct {
	// reading that it was part of last.
	reading uint64
}

// meaning of a series to one source.
type meaning struct {
	source int
	key    mapping.Key
	times  float64
}

// fingerprint stands for a series as it is written, or for a comment. It is made with secrets of this process, so that
// nobody can write two that have the same, and is long enough that nobody ever will by chance.
type fingerprint [2]uint64

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func fingerprintOf(text []byte) fingerprint {
	return fingerprint{maphash.Bytes(seeds[0], text), maphash.Bytes(seeds[1], text)}
}

// NewMemory returns one that knows nothing, for targets that are read with the reader.
func NewMemory(reader *mapping.Reader) *Memory { return newMemory(reader, nil) }

// newMemory returns one that has its room from a share.
func newMemory(reader *mapping.Reader, share *Share) *Memory {
	m := &Memory{
		reader: reader, known: map[fingerprint]line{}, series: map[fingerprint]*one{}, sizes: make([]int, len(reader.Sources)),
		claims: claims{share: share},
	}
	m.room.series, m.room.lines = leastSeries, leastLines
	return m
}

// fits says whether there is room for so many series, and claims it.
func (m *Memory) fits(n int) bool {
	for m.room.series < n {
		if !m.claim(m.room.series+chunk, m.room.lines) {
			return false
		}
		m.room.series += chunk
	}
	return true
}

// remembers says whether there is room for one more line.
func (m *Memory) remembers(most int) bool {
	n := len(m.known) + 1
	if n > most {
		return false
	}
	for m.room.lines < n {
		if !m.claim(m.room.series, m.room.lines+chunk) {
			return false
		}
		m.room.lines += chunk
	}
	return true
}

// recall takes the lines of classic text that are known, and returns the others, in their order.
func (m *Memory) recall(body []byte, take func(line, float64) error) ([]byte, error) {
	if len(m.known) == 0 {
		return body, nil
	}
	var rest []byte
	for len(body) > 0 {
		end := bytes.IndexByte(body, '\n')
		if end < 0 {
			return append(rest, body...), nil
		}
		l, value, ok := m.find(body[:end])
		if !ok {
			rest = append(rest, body[:end+1]...)
		} else if err := take(l, value); err != nil {
			return nil, err
		}
		body = body[end+1:]
	}
	return rest, nil
}

// find returns what is known of a line, and its value. What is written in any unusual way is for the parser.
func (m *Memory) find(text []byte) (l line, value float64, ok bool) {
	if len(text) > 0 && text[0] == '#' {
		l, ok = m.known[fingerprintOf(text)]
		return l, 0, ok
	}
	space := bytes.LastIndexByte(text, ' ')
	if space < 0 {
		return l, 0, false
	}
	if l, ok = m.known[fingerprintOf(text[:space])]; !ok {
		return l, 0, false
	}
	number := text[space+1:]
	if bytes.ContainsAny(number, "xXpP_") { // Go reads more than is allowed
		return l, 0, false
	}
	value, err := strconv.ParseFloat(string(number), 64)
	return l, value, err == nil
}

// learn finds out what the series at which the parser stands means, and remembers it while there is room.
func (m *Memory) learn(text []byte, p textparse.Parser, most int) line {
	name := text
	if i := bytes.IndexByte(text, '{'); i >= 0 {
		name = text[:i]
	}
	out := line{start: string(name) == processStart}
	if m.reader.Wants(name) {
		var l labels.Labels
		p.Labels(&l)
		id := fingerprintOf(l.Bytes(nil))
		if out.series = m.series[id]; out.series == nil {
			out.series = &one{}
			m.series[id] = out.series
		}
		m.reader.Read(string(name), l, func(source int, k mapping.Key, times float64) {
			// Nothing is kept of the series' own text: it would keep all of its labels.
			k.Entity, k.Outcome, k.Shard = strings.Clone(k.Entity), strings.Clone(k.Outcome), strings.Clone(k.Shard)
			out.means = append(out.means, meaning{source, k, times})
		})
		out.hint = m.reader.Hint(string(name), l)
	}
	if m.remembers(most) {
		m.known[fingerprintOf(text)] = out
	}
	return out
}

// accept remembers the comments of a text that the parser has read to its end.
func (m *Memory) accept(text []byte, most int) {
	for comment := range bytes.Lines(text) {
		if comment[0] == '#' && m.remembers(most) {
			m.known[fingerprintOf(bytes.TrimSuffix(comment, []byte("\n")))] = line{}
		}
	}
}

// tidy forgets everything where much of it is of lines that are not told any more, and
// gives back room that was not needed: kept series of so many lines were read.
func (m *Memory) tidy(lines, kept int) {
	if len(m.known) > 2*lines || len(m.series) > 2*kept+leastSeries {
		m.known, m.series = map[fingerprint]line{}, map[fingerprint]*one{}
	}
	m.room.series = max(leastSeries, (kept+chunk-1)/chunk*chunk)
	m.room.lines = max(leastLines, (len(m.known)+chunk-1)/chunk*chunk)
	m.claim(m.room.series, m.room.lines)
}
