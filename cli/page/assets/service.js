// SPDX-License-Identifier: Apache-2.0

// The view of one Service.
import { h } from './dom.js'
import { badge, clocks, hue, ready, since } from './text.js'
import { findings, pendingFor, traffic } from './fleet.js'
import { lanes } from './lanes.js'
import { run } from './gate.js'

const judging = (r) => r.run?.verdict === 'Running'

export function service(data) {
  const s = data.service
  return [
    h('p', { class: 'back' }, h('a', { href: '#/' }, '← All Services')),
    h('div', { class: 'title' },
      h('h1', { tabindex: '-1' }, s.name), ' ', ready(s.ready, s.reason),
      h('p', { class: 'quiet' }, s.namespace, s.url && /^https?:/.test(s.url) && [' · ', h('a', { href: s.url, target: '_blank', rel: 'noreferrer noopener' }, s.url, h('span', { class: 'sr' }, ' (opens the Service in a new tab)'))])),
    h('section', { class: 'panel now', 'aria-labelledby': 'now', key: 'now' },
      h('h2', { id: 'now' }, 'Traffic now'), h('div', { class: 'wide' }, traffic(s.traffic)),
      h('p', { class: 'quiet inline' }, 'To deliver: ', pendingFor(s))),
    findings(s.findings, 0, s.namespace),
    s.runs.filter(judging).map(run),
    lanes(s),
    s.runs.filter((r) => !judging(r)).map(run),
    history(s),
    revisions(s),
  ]
}

function history(s) {
  const events = [...s.history.events].reverse()
  const clock = clocks(events.map((e) => e.time))
  return h('section', { class: 'panel', 'aria-labelledby': 'history', key: 'history' },
    h('h2', { id: 'history' }, 'What happened'),
    events.length
      ? h('ol', { class: 'history', reversed: true }, events.map((e) => h('li', { key: `${e.sequence || 0}/${e.time}/${e.text.slice(0, 30)}` },
        h('p', null,
          e.type && h('span', { class: `event tone-${e.outcome || 'plain'}` }, short(e.type)), ' ', e.text),
        h('p', { class: 'quiet' }, h('time', { datetime: e.time }, clock(e.time)), ' · ', since(e.time, '', ' ago'),
          e.told?.length ? ` · told ${e.told.join(', ')}` : null,
          e.pendingFor?.length ? h('span', { class: 'tone-unsure' }, ` · pending for ${e.pendingFor.join(', ')}`) : null))))
      : h('p', { class: 'empty' }, 'Nothing is known to have happened since the controller first saw this Service.'),
    (s.history.notes || []).map((n) => h('p', { class: 'quiet' }, n)),
    dropped(s.history.dropped))
}

function dropped(counts) {
  if (!counts) return null
  return Object.entries(counts).map(([reason, n]) => h('p', null, badge('False', 'Dropped'), ` ${n}: ${reason}`))
}

// short is what people call an event: service.upgraded for dev.cdevents.service.upgraded.0.3.0.
export function short(type) {
  const rest = type.replace(/^dev\.cdevents\./, '').replace(/^dev\.cdeventsx\.(knative-|stateful-)?/, '')
  return rest.split('.').slice(0, 2).join('.')
}

function revisions(s) {
  if (!s.revisions.length) return null
  const cell = (title, ...children) => h('td', { role: 'cell', 'data-title': title }, children)
  return h('details', { class: 'panel', key: 'revisions' },
    h('summary', null, h('h2', null, `Revisions (${s.revisions.length})`)),
    h('table', { role: 'table', 'aria-label': 'Revisions', class: 'stacking' },
      h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, ['Revision', 'State', 'Traffic', 'Created', 'Image'].map((t) => h('th', { role: 'columnheader', scope: 'col' }, t)))),
      h('tbody', { role: 'rowgroup' }, s.revisions.map((r) => h('tr', { role: 'row', key: r.name },
        h('th', { role: 'rowheader', scope: 'row', 'data-title': 'Revision' }, h('span', { class: `name hue${hue(r.name)}`, 'aria-hidden': 'true' }), r.name),
        cell('State', r.exists ? ready(r.ready, r.reason) : h('span', { class: 'quiet' }, 'not read')),
        cell('Traffic', `${r.percent} %`),
        cell('Created', r.created ? since(r.created, '', ' ago') : ''),
        cell('Image', h('span', { class: 'address' }, r.image || '')))))))
}
