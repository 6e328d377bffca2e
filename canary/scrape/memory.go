// SPDX-License-Identifier: Apache-2.0

package scrape

import (
	"bytes"
	"hash/maphash"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// Memory holds one target's known lines and the meaning of their series. An exposition repeats
// everything but the values, so only values are read again and only new lines are parsed. One reading
// uses it at a time.
type Memory struct {
	reader *mapping.Reader
	known  map[fingerprint]line
	// series with a meaning, by their labels.
	series map[fingerprint]*one
	// reading is the number of the last reading.
	reading uint64
	// sizes is how many values each source had last.
	sizes []int
	// room is the current limit of series and lines.
	room struct{ series, lines int }
	claims
}

// line is what is known of one line. Comments and series that no mapping names have no meaning.
type line struct {
	start bool
	means []meaning
	// series is nil if it has no meaning. hint tells why it means less than it could.
	series *one
	hint   string
}

// one is one series, however its labels are written.
type one struct {
	// reading is the last reading that it was part of.
	reading uint64
}

// meaning of a series to one source.
type meaning struct {
	source int
	key    mapping.Key
	times  float64
}

// fingerprint identifies a series as written, or a comment. It uses secrets of this process, so a pod
// cannot forge a collision, and is long enough to rule one out by chance.
type fingerprint [2]uint64

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func fingerprintOf(text []byte) fingerprint {
	return fingerprint{maphash.Bytes(seeds[0], text), maphash.Bytes(seeds[1], text)}
}

// NewMemory returns an empty Memory for targets that are read with the reader.
func NewMemory(reader *mapping.Reader) *Memory { return newMemory(reader, nil) }

// newMemory returns a Memory that takes its room from a Quota.
func newMemory(reader *mapping.Reader, quota *Quota) *Memory {
	m := &Memory{
		reader: reader, known: map[fingerprint]line{}, series: map[fingerprint]*one{},
		sizes:  make([]int, len(reader.Sources)),
		claims: claims{quota: quota},
	}
	m.room.series, m.room.lines = leastSeries, leastLines
	return m
}

// fits reports whether there is room for n series, and claims it.
func (m *Memory) fits(n int) bool {
	for m.room.series < n {
		if !m.claim(m.room.series+chunk, m.room.lines) {
			return false
		}
		m.room.series += chunk
	}
	return true
}

// remembers reports whether there is room for one more line.
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

// recall takes the known lines of classic text and returns the others, in order.
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

// find returns what is known of a line, and its value. Lines written in an unusual way are left to the
// parser.
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
	if bytes.ContainsAny(number, "xXpP_") { // Go accepts more than the format allows
		return l, 0, false
	}
	value, err := strconv.ParseFloat(string(number), 64)
	return l, value, err == nil
}

// learn determines the meaning of the parser's current series, and remembers it while there is room.
func (m *Memory) learn(text []byte, p textparse.Parser, most int) line {
	var l labels.Labels
	name := nameBefore(text)
	if len(name) == 0 { // as in {"name",label="value"}
		p.Labels(&l)
		name = []byte(l.Get(model.MetricNameLabel))
	}
	out := line{start: string(name) == processStart}
	if m.reader.Wants(name) {
		p.Labels(&l)
		id := fingerprintOf(l.Bytes(nil))
		if out.series = m.series[id]; out.series == nil {
			out.series = &one{}
			m.series[id] = out.series
		}
		m.reader.Read(string(name), l, func(source int, k mapping.Key, times float64) {
			// Clone the strings, because a part of the series' text would keep all of its labels alive.
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

// nameBefore returns the name that stands before the labels of a series, empty if it is among them. It does not read
// the labels, which most series are not worth. The format ignores blanks around a name.
func nameBefore(text []byte) []byte {
	if i := bytes.IndexByte(text, '{'); i >= 0 {
		text = text[:i]
	}
	return bytes.Trim(text, " \t")
}

// accept remembers the comments of a text that the parser has read to its end.
func (m *Memory) accept(text []byte, most int) {
	for comment := range bytes.Lines(text) {
		if comment[0] == '#' && m.remembers(most) {
			m.known[fingerprintOf(bytes.TrimSuffix(comment, []byte("\n")))] = line{}
		}
	}
}

// tidy drops everything if much of it belongs to lines that are no longer exported, and gives back
// unused room. kept is how many series were read from so many lines.
func (m *Memory) tidy(lines, kept int) {
	if len(m.known) > 2*lines || len(m.series) > 2*kept+leastSeries {
		m.known, m.series = map[fingerprint]line{}, map[fingerprint]*one{}
	}
	m.room.series = max(leastSeries, (kept+chunk-1)/chunk*chunk)
	m.room.lines = max(leastLines, (len(m.known)+chunk-1)/chunk*chunk)
	m.claim(m.room.series, m.room.lines)
}
