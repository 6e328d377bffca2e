// The running or last run of a gate.
import { h } from './dom.js'
import { command } from './fleet.js'
import { badge, clock, duration, hue, now, percent, since } from './text.js'

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
    run.message && h('p', { class: 'quiet' }, run.message),
    j && h('div', { class: 'figures' }, shares(r), requests(r)),
    j?.metrics?.length ? metrics(j.metrics, run.verdict === 'Running') : null,
  ]
}

const name = (of) => h('span', { class: 'revision' }, h('span', { class: `name hue${hue(of)}`, 'aria-hidden': 'true' }), of)

function when({ run, customRun }) {
  const forRun = customRun ? ` For CustomRun ${customRun}.` : ''
  if (run.completionTime) return ['It began at ', clock(run.startTime), ' and ended ', since(run.completionTime, '', ' ago'), '.', forRun]
  const left = (new Date(run.deadline) - now()) / 1000
  return ['It began ', since(run.startTime, '', ' ago'), left > 0 ? `, and ends in ${duration(left)} at the latest.` : '.', forRun]
}

// bar is a number with a bar below it, which says nothing more.
function bar(title, part, text, of, bounds) {
  return h('div', { class: 'figure' },
    h('p', null, h('span', { class: 'label' }, title), ' ', h('strong', null, text)),
    h('span', { class: `meter ${of || ''}`, 'aria-hidden': 'true', vars: { '--part': Math.max(0, Math.min(1, part || 0)), ...bounds } },
      h('span', { class: 'fill' }), bounds && h('span', { class: 'bounds' })))
}

// shares compares what entered at the canary with what it handled.
function shares(r) {
  const { requiredShare: entered, handledShare: handled } = r.judgement
  if (entered === undefined) return null
  const scale = Math.min(1, Math.max(entered, handled || 0, r.most || 0) * 1.15) || 1
  const bounds = r.most !== undefined && r.least !== undefined ? { '--from': r.least / scale, '--to': Math.min(1, r.most / scale) } : null
  let verdict = ''
  if (handled !== undefined && r.most !== undefined && handled > r.most) verdict = `, more than the ${percent(r.most)} that the gate accepts`
  if (handled !== undefined && r.least !== undefined && handled < r.least) verdict = `, less than the ${percent(r.least)} that the gate expects`
  return h('div', { class: 'group' }, h('h3', null, 'Entered against handled'),
    bar('Entered at the canary', entered / scale, `${percent(entered)} of the requests`, 'entered'),
    handled === undefined
      ? h('p', { class: 'quiet' }, 'What it handled is not known yet.')
      : bar('Handled by the canary', handled / scale, `${percent(handled)}${verdict}`, verdict ? 'off' : `handled hue${hue(r.run.canary.name)}`, bounds),
    chart(r, scale))
}

// chart draws what was seen of both shares since the page is open.
function chart(r, scale) {
  const points = (r.series || []).filter((p) => p.handled !== undefined && p.entered !== undefined)
  if (points.length < 2) return null
  const [width, height] = [600, 120]
  const from = new Date(points[0].time), all = new Date(points.at(-1).time) - from || 1
  const x = (p) => (width * (new Date(p.time) - from) / all).toFixed(1)
  const y = (share) => (height - height * Math.min(1, share / scale)).toFixed(1)
  const path = (of) => points.map((p, i) => `${i ? 'L' : 'M'}${x(p)},${y(p[of])}`).join('')
  const first = points[0], last = points.at(-1)
  return h('figure', { class: 'chart' },
    h('svg', { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `From ${clock(first.time)} to ${clock(last.time)}, the share that the canary handled went from ${percent(first.handled)} to ${percent(last.handled)}; ${percent(last.entered)} entered there` },
      r.most !== undefined && h('rect', { class: 'accepted', x: 0, width, y: y(r.most), height: Math.max(0, y(r.least || 0) - y(r.most)) }),
      h('path', { class: 'line entered', d: path('entered') }),
      h('path', { class: `line handled hue${hue(r.run.canary.name)}`, d: path('handled') })),
    h('figcaption', { class: 'quiet' }, `${clock(first.time)} to ${clock(last.time)}: `, h('span', { class: 'key solid' }, 'handled'), ', ', h('span', { class: 'key dashed' }, 'entered'), r.most !== undefined && [', ', h('span', { class: 'key area' }, 'accepted')]))
}

function requests(r) {
  const { canary, baseline } = r.judgement
  const side = (title, s, needs, of) => bar(title, needs ? s.requests / needs : 1, `${Math.round(s.requests).toLocaleString('en')} of ${Math.round(needs).toLocaleString('en')} needed`, of)
  return h('div', { class: 'group' }, h('h3', null, 'Requests'),
    side('Canary', canary, r.canaryNeeds, `hue${hue(r.run.canary.name)}`),
    side('Baseline', baseline, r.baselineNeeds, r.run.baseline ? `hue${hue(r.run.baseline.name)}` : ''),
    r.more ? h('p', { class: 'quiet' }, `About ${duration(r.more)} more at the present rate.`) : null,
    canary.shardsMissing || baseline.shardsMissing ? h('p', { class: 'quiet' }, `${canary.shardsMissing || 0} more shards of the canary, and ${baseline.shardsMissing || 0} of the baseline are needed.`) : null)
}

const ratio = (x) => x === undefined ? 'no requests' : `${Number((100 * x).toPrecision(3))} %`
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
