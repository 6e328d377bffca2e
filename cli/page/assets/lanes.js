// The time line of a Service: a lane for each Revision, a column for each moment. The columns have the same width, because hours
// pass between some moments, and seconds between others.
import { h } from './dom.js'
import { clock, eventTone, hue, many, since } from './text.js'

const columns = 40
const shown = 8

export function lanes(s) {
  const moments = s.moments.slice(-columns)
  if (!moments.length) return null
  const known = (name) => moments.some((m) => (m.split || []).some((x) => x.revision === name))
  // Those that had traffic, and those that are too new to have any.
  const newest = s.revisions.findIndex((r) => known(r.name))
  const rows = s.revisions.filter((r, i) => known(r.name) || i < newest).slice(0, shown)
  if (!rows.length) return null
  const left = s.moments.length - moments.length
  return h('section', { class: 'panel', 'aria-labelledby': 'line', key: 'line' },
    h('h2', { id: 'line' }, 'Time line'),
    h('p', { class: 'quiet hint' }, 'How the traffic was split from each moment on. The newest is at the right.',
      left ? ` ${many(left, 'earlier moment is', 'earlier moments are')} left out.` : null),
    h('div', { class: 'lanes', role: 'region', tabindex: '0', 'aria-label': 'Splits of the traffic', key: 'lanes' },
      h('table', { 'aria-labelledby': 'line' },
        h('thead', null, h('tr', null,
          h('th', { scope: 'col', class: 'first' }, 'Revision'),
          moments.map((m, i) => [head(m), gap(m, i === moments.length - 1, true)]))),
        h('tbody', null, rows.map((r) => lane(r, moments))))))
}

function head(m) {
  return h('th', { scope: 'col', class: 'moment', key: `${m.time}/${m.name}` },
    h('span', { class: `mark tone-${eventTone(m.name)}`, 'aria-hidden': 'true' }),
    h('span', { class: 'event' }, m.name),
    h('time', { datetime: m.time, title: m.text }, clock(m.time).replace(' ', '\u00a0')),
    h('span', { class: 'ago' }, since(m.time, '', ' ago')))
}

// gap stands for events that the ledger has not kept.
function gap(m, last, header) {
  if (!m.missing) return null
  const text = last ? 'not in sight yet' : `${many(m.missing, 'event', 'events')} not kept`
  return header
    ? h('th', { scope: 'col', class: 'gap' }, h('span', null, text))
    : h('td', { class: 'gap' }, h('span', { class: 'sr' }, 'not known'))
}

function lane(r, moments) {
  let before = null
  return h('tr', { key: r.name, class: `hue${hue(r.name)}` },
    h('th', { scope: 'row', class: 'first' }, h('span', { class: `name hue${hue(r.name)}`, 'aria-hidden': 'true' }), r.name,
      h('span', { class: 'quiet' }, r.percent ? `${r.percent} % now` : r.exists ? 'no traffic' : '')),
    moments.map((m, i) => {
      const known = m.split?.length
      const share = known ? m.split.find((x) => x.revision === r.name)?.percent || 0 : null
      const same = share !== null && share === before && !moments[i - 1]?.missing
      before = share
      return [
        known
          ? h('td', { class: `step ${share ? '' : 'nothing'} ${same ? 'same' : ''}`, vars: { '--part': share } }, h('span', { class: 'fill', 'aria-hidden': 'true' }), h('span', { class: share ? 'value' : 'value sr' }, `${share} %`))
          : h('td', { class: 'step unknown' }, h('span', { class: 'value' }, 'not known')),
        gap(m, i === moments.length - 1, false),
      ]
    }))
}
