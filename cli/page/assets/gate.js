// SPDX-License-Identifier: Apache-2.0

// The running or last run of a gate.
import { h } from './dom.js'
import { command } from './fleet.js'
import { badge, clock, clocks, hue, now, percent, since, span } from './text.js'

export function run(r) {
  const id = `gate-${r.name}`
  const judging = r.run?.verdict === 'Running'
  return h('section', { class: `panel gatepanel ${judging ? 'judging' : ''}`, 'aria-labelledby': id, key: id },
    h('div', { class: 'bar' }, h('h2', { id }, `Gate ${r.name}`), ' ', r.run && badge(r.run.verdict, judging ? 'Judging' : r.run.verdict), r.dryRun && badge('', 'Dry run: it stops nothing')),
    r.run ? body(r) : [h('p', null, r.finding.state === 'works' ? null : [badge(r.finding.state), ' '], r.finding.what), r.finding.message && h('p', { class: 'quiet' }, r.finding.message)],
    r.finding.state !== 'works' && r.finding.do && h('p', { class: 'do' }, h('span', { class: 'label' }, 'Do '), r.finding.do, command(r.finding.do)),
    (r.notes || []).map((n) => h('p', { class: 'quiet' }, n)))
}

function body(r) {
  const { run, judgement: j } = r
  return [
    h('p', null, name(run.canary.name), run.baseline?.name && [' against ', name(run.baseline.name)], '. ', when(r)),
    r.summary && h('p', null, r.summary),
    j && h('div', { class: 'figures' }, shares(r), requests(r)),
    j?.metrics?.length ? metrics(j.metrics, run.verdict === 'Running') : null,
    r.remarks?.length ? h('ul', { class: 'remarks quiet' }, r.remarks.map((t) => h('li', null, t))) : null,
  ]
}

const name = (of) => h('span', { class: 'revision' }, h('span', { class: `name hue${hue(of)}`, 'aria-hidden': 'true' }), of)

function when({ run, customRun }) {
  const forRun = customRun ? ` For CustomRun ${customRun}.` : ''
  if (run.completionTime) return ['It began at ', clock(run.startTime), ' and ended ', since(run.completionTime, '', ' ago'), '.', forRun]
  const left = (new Date(run.deadline) - now()) / 1000
  return ['It began ', since(run.startTime, '', ' ago'), left > 0 ? `, and ends in ${span(left)} at the latest.` : '.', forRun]
}

// bar is a number with a bar below it, which says nothing more. It begins at 0.
function bar(title, part, text, of, bounds) {
  return h('div', { class: 'figure' },
    h('p', null, h('span', { class: 'label' }, title), ' ', h('strong', null, text)),
    h('span', { class: `meter ${of || ''}`, 'aria-hidden': 'true', vars: { '--part': Math.max(0, Math.min(1, part || 0)), ...bounds } },
      h('span', { class: 'fill' }), bounds && h('span', { class: 'bounds' })))
}

// scale says where the bars above it begin and end.
const scale = (to) => h('p', { class: 'scale quiet', 'aria-hidden': 'true' }, h('span', null, '0'), h('span', null, to))

// shares compares what entered at the canary with what it handled.
function shares(r) {
  const { requiredShare: entered, handledShare: handled } = r.judgement
  if (entered === undefined) return null
  const bounds = r.most !== undefined && r.least !== undefined ? { '--from': r.least, '--to': r.most } : null
  let verdict = ''
  if (handled !== undefined && r.most !== undefined && handled > r.most) verdict = `, more than the ${percent(r.most)} that the gate accepts`
  if (handled !== undefined && r.least !== undefined && handled < r.least) verdict = `, less than the ${percent(r.least)} that the gate expects`
  return h('div', { class: 'group' }, h('h3', null, 'Entered against handled'),
    bar('Entered at the canary', entered, `${percent(entered)} of the requests`, 'entered'),
    handled === undefined
      ? h('p', { class: 'quiet' }, 'What it handled is not known yet.')
      : bar('Handled by the canary', handled, `${percent(handled)}${verdict}`, verdict ? 'off' : `handled hue${hue(r.run.canary.name)}`, bounds),
    scale('100\u00a0%'),
    chart(r))
}

// Where an axis of shares may end.
const ends = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1]

// stretches cuts points where there is nothing in between for much longer than between most of them.
export function stretches(points) {
  const times = points.map((p) => new Date(p.time) / 1000)
  const usual = times.slice(1).map((t, i) => t - times[i]).sort((a, b) => a - b)[Math.floor((times.length - 2) / 2)]
  const out = []
  points.forEach((p, i) => {
    if (i === 0 || times[i] - times[i - 1] > 4 * usual) out.push([])
    out.at(-1).push(p)
  })
  return out
}

// chart draws what was seen of both shares since the page is open.
function chart(r) {
  const points = (r.series || []).filter((p) => p.handled !== undefined && p.entered !== undefined)
  if (points.length < 2) return null
  const [width, height] = [600, 120]
  const most = Math.max(...points.flatMap((p) => [p.entered, p.handled]), r.most || 0)
  const end = ends.find((e) => e >= most) || 1
  const from = new Date(points[0].time), all = new Date(points.at(-1).time) - from || 1
  const x = (p) => (width * (new Date(p.time) - from) / all).toFixed(1)
  const y = (share) => (height - height * Math.min(1, share / end)).toFixed(1)
  // A stretch of one point is a dot.
  const path = (of) => stretches(points).map((s) => s.map((p, i) => `${i ? 'L' : 'M'}${x(p)},${y(p[of])}`).join('') + (s.length === 1 ? 'h0' : '')).join('')
  const first = points[0], last = points.at(-1), clock = clocks([first.time, last.time])
  return h('figure', { class: 'chart' },
    h('div', { class: 'plot' },
      h('span', { class: 'quiet end', 'aria-hidden': 'true' }, percent(end)), h('span', { class: 'quiet zero', 'aria-hidden': 'true' }, '0'),
      h('svg', { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `From ${clock(first.time)} to ${clock(last.time)}, the share that the canary handled went from ${percent(first.handled)} to ${percent(last.handled)}; ${percent(last.entered)} entered there` },
        r.most !== undefined && h('rect', { class: 'accepted', x: 0, width, y: y(r.most), height: Math.max(0, y(r.least || 0) - y(r.most)) }),
        h('path', { class: 'line entered', d: path('entered') }),
        h('path', { class: `line handled hue${hue(r.run.canary.name)}`, d: path('handled') }))),
    h('figcaption', { class: 'quiet' }, `${clock(first.time)} to ${clock(last.time)}: `, h('span', { class: 'key solid' }, 'handled'), ', ', h('span', { class: 'key dashed' }, 'entered'), r.most !== undefined && [', ', h('span', { class: 'key area' }, 'accepted')]))
}

function requests(r) {
  const { canary, baseline } = r.judgement
  const number = (n) => Math.round(n).toLocaleString('en')
  // What is more than needed is not "of" it: the bar is full then, and ticked.
  const side = (title, s, needs, of) => s.requests < needs
    ? bar(title, s.requests / needs, `${number(s.requests)} of at least ${number(needs)}`, of)
    : bar(title, 1, [`${number(s.requests)}; at least ${number(needs)} `, h('span', { class: 'tick', 'aria-hidden': 'true' }, '✓')], of)
  return h('div', { class: 'group' }, h('h3', null, 'Requests'),
    side('Canary', canary, r.canaryNeeds, `hue${hue(r.run.canary.name)}`),
    side('Baseline', baseline, r.baselineNeeds, r.run.baseline ? `hue${hue(r.run.baseline.name)}` : ''),
    scale('the least'),
    r.more ? h('p', { class: 'quiet' }, `A verdict needs about ${number(r.missing)} more requests of the canary: ${span(r.more)} at the present rate.`) : null,
    canary.shardsMissing || baseline.shardsMissing ? h('p', { class: 'quiet' }, `${canary.shardsMissing || 0} more shards of the canary, and ${baseline.shardsMissing || 0} of the baseline are needed.`) : null)
}

const ratio = (x) => x === undefined ? 'no requests' : percent(x)
const evalue = (x) => x >= 1e6 ? x.toExponential(1) : Number(x.toPrecision(3)).toString()

// proof shows an e-value. Evidence multiplies, so the bar is logarithmic: an e-value of 1 says nothing.
function proof(value, limit) {
  if (!limit) return h('span', { class: 'quiet' }, 'none')
  const part = value > 1 && limit > 1 ? Math.log(value) / Math.log(limit) : 0
  return [
    h('span', { class: 'meter small', 'aria-hidden': 'true', vars: { '--part': Math.min(1, part) } }, h('span', { class: 'fill' })),
    h('span', { class: 'words' }, value >= limit ? 'proven' : `${evalue(value)} of ${evalue(limit)}`),
  ]
}

function metrics(all, judging) {
  const cell = (title, ...children) => h('td', { role: 'cell', 'data-title': title }, children)
  const heads = ['Metric', 'Verdict', 'Canary bad', 'Baseline bad', 'Difference (95 %)', 'Proof: worse', 'Proof: good enough']
  return h('table', { role: 'table', class: 'stacking metrics', 'aria-label': 'Metrics' },
    h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, heads.map((t) => h('th', { role: 'columnheader', scope: 'col' }, t)))),
    h('tbody', { role: 'rowgroup' }, all.map((m) => h('tr', { role: 'row', key: m.name },
      h('th', { role: 'rowheader', scope: 'row', 'data-title': 'Metric' }, m.name, m.dryRun && h('span', { class: 'quiet' }, ' (dry run)')),
      cell('Verdict', m.verdict !== 'Running' ? badge(m.verdict) : judging ? badge(m.verdict, 'Judging') : badge('Unknown', 'Undecided'), m.reason && m.reason !== 'Undecided' && h('span', { class: 'quiet block' }, m.reason)),
      cell('Canary bad', ratio(m.canary)),
      cell('Baseline bad', ratio(m.baseline)),
      cell('Difference (95 %)', m.low !== undefined && m.high !== undefined ? `${signed(m.low)} to ${signed(m.high)} points` : h('span', { class: 'quiet' }, 'not known')),
      cell('Proof: worse', m.p !== undefined && m.p !== null ? [proof(m.eFail, m.eFailLimit), h('span', { class: 'quiet block' }, `p = ${Number(m.p.toPrecision(2))} over the shards`)] : proof(m.eFail, m.eFailLimit)),
      cell('Proof: good enough', proof(m.ePass, m.ePassLimit))))))
}

const signed = (x) => `${x < 0 ? '−' : '+'}${Math.abs(100 * x).toFixed(2)}`
