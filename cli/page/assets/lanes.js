// SPDX-License-Identifier: Apache-2.0

// The time line of a Service: a lane for each Revision, a column for each moment. Hours pass between some moments, and seconds between
// others, so the columns have no scale: a break marks where much more time passes than between most, and says how much.
import { h } from './dom.js'
import { clocks, hue, many, since, span } from './text.js'

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
  const clock = clocks(moments.map((m) => m.time)), pauses = long(moments)
  return h('section', { class: 'panel', 'aria-labelledby': 'line', key: 'line' },
    h('h2', { id: 'line' }, 'Time line'),
    h('p', { class: 'quiet hint' }, 'How the traffic was split from each moment on. The newest is at the right. The columns are not to scale.',
      left ? ` ${many(left, 'earlier moment is', 'earlier moments are')} left out.` : null),
    h('div', { class: 'lanes', role: 'region', tabindex: '0', 'aria-label': 'Splits of the traffic', key: 'lanes' },
      h('table', { 'aria-labelledby': 'line' },
        h('thead', null, h('tr', null,
          h('th', { scope: 'col', class: 'first' }, 'Revision'),
          moments.map((m, i) => [head(m, clock), gap(m, i === moments.length - 1, true), pause(pauses[i], true)]))),
        h('tbody', null, rows.map((r) => lane(r, moments, pauses)))),
      h('div', { class: 'spare', 'aria-hidden': 'true' })))
}

// long returns, for each moment, the seconds to the next one if they are ten times as many as between most of them, and a minute or more.
export function long(moments) {
  const times = moments.map((m) => new Date(m.time) / 1000)
  const between = times.slice(1).map((t, i) => t - times[i])
  const usual = [...between].sort((a, b) => a - b)[Math.floor((between.length - 1) / 2)]
  return between.map((seconds) => seconds >= 60 && seconds >= 10 * usual ? seconds : 0)
}

function head(m, clock) {
  return h('th', { scope: 'col', class: 'moment', key: `${m.time}/${m.name}` },
    h('span', { class: `mark tone-${m.outcome}`, 'aria-hidden': 'true' }),
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

// pause is a break of the time axis. The split stays as it is.
function pause(seconds, header) {
  if (!seconds) return null
  return header
    ? h('th', { scope: 'col', class: 'pause' }, h('span', null, span(seconds)))
    : h('td', { class: 'pause' })
}

function lane(r, moments, pauses) {
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
        pause(pauses[i], false),
      ]
    }))
}
