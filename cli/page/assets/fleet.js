// SPDX-License-Identifier: Apache-2.0

// The view of all Services.
import { h } from './dom.js'
import { badge, hue, link, many, ready, since } from './text.js'

export function fleet(data, wanted) {
  const f = data.fleet
  return [
    h('h1', { tabindex: '-1', class: 'sr' }, 'Services'),
    h('div', { class: 'tiles', role: 'group', 'aria-label': 'Show' },
      tile('', f.counts.all, f.counts.all === 1 ? 'Service' : 'Services', wanted),
      tile('moving', f.counts.moving, 'rolling out', wanted, f.counts.moving && 'busy'),
      tile('ailing', f.counts.ailing, f.counts.ailing === 1 ? 'needs attention' : 'need attention', wanted, f.counts.ailing && 'bad'),
      f.counts.pending !== undefined && tile('pending', f.counts.pending, 'with events to deliver', wanted, f.counts.pending && 'unsure')),
    findings(f.findings, f.moreFindings, data.scope),
    services(f, wanted),
    sources(f),
    environments(f),
  ]
}

function tile(only, n, text, wanted, tone) {
  return h('button', { class: `tile ${tone || ''}`, 'data-do': 'only', 'data-only': only, 'aria-pressed': String(wanted.only === only), key: `tile-${only}` },
    h('span', { class: 'number' }, n.toLocaleString('en')), ' ', h('span', { class: 'what' }, text))
}

export function findings(all, more, scope) {
  if (!all.length) return null
  return h('section', { class: 'panel findings', 'aria-labelledby': 'findings', key: 'findings' },
    h('h2', { id: 'findings' }, 'What needs attention'),
    h('ul', null, all.map((f) => finding(f, scope))),
    more ? h('p', { class: 'quiet' }, `${many(more, 'more finding', 'more findings')}: kubectl cdevents why${scope ? ` -n ${scope}` : ' -A'}`) : null)
}

function finding(f, scope) {
  const name = f.namespace && f.namespace !== scope ? `${f.namespace}/${f.name}` : f.name
  const why = [f.reason, f.message].filter(Boolean).join(': ')
  return h('li', { key: `${f.kind}/${f.namespace}/${f.name}/${f.what.slice(0, 20)}` },
    h('p', null, badge(f.state), ' ', h('strong', null, `${f.kind} `, f.kind === 'Service' ? h('a', { href: link(f.namespace, f.name) }, name) : name), ': ', f.what),
    why && h('p', { class: 'quiet' }, why),
    f.do && h('p', { class: 'do' }, h('span', { class: 'label' }, 'Do '), f.do, command(f.do)))
}

// command offers to copy the command that an advice contains.
export function command(text) {
  const found = /(kubectl|kn) .*$/.exec(text)
  return found && [' ', h('button', { class: 'small', 'data-do': 'copy', 'data-text': found[0], 'aria-label': `Copy ${found[0]}` }, 'Copy')]
}

const cell = (title, ...children) => h('td', { role: 'cell', 'data-title': title }, children)
const heads = (...titles) => h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, titles.filter(Boolean).map((t) => h('th', { role: 'columnheader', scope: 'col' }, t))))

function services(f, wanted) {
  const filtered = wanted.only || wanted.q
  return h('section', { class: 'panel', 'aria-labelledby': 'services', key: 'services' },
    h('div', { class: 'bar' },
      h('h2', { id: 'services' }, 'Services'),
      h('label', { for: 'search', class: 'sr' }, 'Search Services'),
      h('input', { id: 'search', type: 'search', value: wanted.q || null, placeholder: 'Search  /', autocomplete: 'off', spellcheck: 'false' })),
    f.services.length
      ? h('table', { role: 'table', 'aria-labelledby': 'services', class: 'stacking' },
        heads(f.namespaces && 'Namespace', 'Service', 'State', 'Traffic', 'Gate', 'To deliver', 'Last event'),
        h('tbody', { role: 'rowgroup' }, f.services.map((s) => row(f, s))))
      : h('p', { class: 'empty' }, filtered ? 'No Service matches.' : 'There are no Knative Services here yet. They appear as soon as they are created.'),
    f.matching > f.services.length && h('p', { class: 'more' }, `${f.services.length} of ${many(f.matching, 'Service', 'Services')}. `, h('button', { class: 'small', 'data-do': 'more' }, 'Show more')))
}

function row(f, s) {
  return h('tr', { role: 'row', key: `${s.namespace}/${s.name}`, class: s.ailing ? 'ailing' : null },
    f.namespaces && cell('Namespace', s.namespace),
    h('th', { role: 'rowheader', scope: 'row', 'data-title': 'Service' }, h('a', { href: link(s.namespace, s.name) }, s.name)),
    cell('State', ready(s.ready, s.reason)),
    cell('Traffic', traffic(s.traffic)),
    cell('Gate', (s.gates || []).map(gate)),
    cell('To deliver', pendingFor(s)),
    cell('Last event', s.lastEventTime && [h('span', { class: 'event' }, s.lastEvent), ' ', since(s.lastEventTime, '', ' ago')]))
}

// traffic shows a split as a bar, with the words below.
export function traffic(shares) {
  if (!shares?.length) return h('span', { class: 'quiet' }, 'none')
  return [
    h('span', { class: 'split', 'aria-hidden': 'true' }, shares.map((s) => h('span', { class: `share hue${hue(s.revision)}`, vars: { '--part': s.percent } }))),
    h('span', { class: 'words' }, shares.map((s, i) => [i ? ', ' : '', h('span', { class: `name hue${hue(s.revision)}` }, `${s.percent}\u00a0%`), ` ${s.revision}`])),
  ]
}

function gate(g) {
  if (g.ready === 'False') return h('span', { class: 'gate' }, badge('False', g.reason || 'cannot judge'), ` ${g.name}`)
  if (!g.verdict) return h('span', { class: 'gate quiet' }, `${g.name}: no run yet`)
  return h('span', { class: 'gate' }, badge(g.verdict, g.verdict === 'Running' ? 'Judging' : g.verdict), ` ${g.canary || g.name}`)
}

export function pendingFor(s) {
  if (s.pending === undefined) return h('span', { class: 'quiet' }, 'not known')
  if (!s.pending) return h('span', { class: 'quiet' }, '0')
  return (s.pendingFor || []).map((p) => h('span', { class: 'pending' }, `${p.events} to ${p.source} `, since(p.since, 'for ')))
}

function sources(f) {
  if (!f.sources.length) return null
  const several = new Set(f.sources.map((s) => s.namespace)).size > 1
  return h('section', { class: 'panel', 'aria-labelledby': 'sources', key: 'sources' },
    h('h2', { id: 'sources' }, 'Sources'),
    h('table', { role: 'table', 'aria-labelledby': 'sources', class: 'stacking' },
      heads(several && 'Namespace', 'Source', 'State', 'To deliver', 'Last delivery', 'Sink'),
      h('tbody', { role: 'rowgroup' }, f.sources.map((s) => h('tr', { role: 'row', key: `${s.namespace}/${s.name}` },
        several && cell('Namespace', s.namespace),
        h('th', { role: 'rowheader', scope: 'row', 'data-title': 'Source' }, s.name),
        cell('State', sourceState(s)),
        cell('To deliver', s.pending ? [many(s.pending, 'event', 'events'), s.oldestPending && since(s.oldestPending, ', the oldest for ')] : h('span', { class: 'quiet' }, '0')),
        cell('Last delivery', s.lastDelivery ? since(s.lastDelivery, '', ' ago') : h('span', { class: 'quiet' }, 'none yet')),
        cell('Sink', h('span', { class: 'address' }, s.sink || '')))))))
}

function sourceState(s) {
  if (s.ready !== 'True') return badge(s.ready, s.reason || 'Not ready')
  if (s.delivering === 'False') return badge('False', s.reason || 'Not delivering')
  return badge('True', 'Delivers')
}

function environments(f) {
  if (!f.environments.length) return null
  return h('section', { class: 'panel', 'aria-labelledby': 'environments', key: 'environments' },
    h('h2', { id: 'environments' }, 'Environments'),
    h('table', { role: 'table', 'aria-labelledby': 'environments', class: 'stacking' },
      heads('Environment', 'Kind', 'Namespace', 'To deliver', 'Last event'),
      h('tbody', { role: 'rowgroup' }, f.environments.map((s) => h('tr', { role: 'row', key: `${s.kind}/${s.namespace}/${s.name}` },
        h('th', { role: 'rowheader', scope: 'row', 'data-title': 'Environment' }, s.name),
        cell('Kind', s.kind), cell('Namespace', s.namespace || 'none'), cell('To deliver', pendingFor(s)),
        cell('Last event', s.lastEventTime && [h('span', { class: 'event' }, s.lastEvent), ' ', since(s.lastEventTime, '', ' ago')]))))))
}

