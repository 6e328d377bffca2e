// SPDX-License-Identifier: Apache-2.0

// Words for times, shares and states.
import { h } from './dom.js'

// The clock of the machine that runs the command, which may not be that of the browser.
let offset = 0
export function setNow(now) { offset = new Date(now).getTime() - Date.now() }
export function now() { return Date.now() + offset }

// span says how long something takes or has taken. Its rule is that of cli/words, whose examples test both: what began 3 minutes and
// 50 seconds ago began "3 min" ago.
export function span(seconds) {
  const s = Math.max(0, seconds)
  if (s < 120) return `${Math.floor(s)} s`
  if (s < 2 * 3600) return `${Math.floor(s / 60)} min`
  if (s < 48 * 3600) return `${Math.floor(s / 3600)} h`
  return `${Math.floor(s / 86400)} days`
}

export const age = (at) => span((now() - new Date(at)) / 1000)

const pad = (n) => String(n).padStart(2, '0')

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

// clocks returns how to write the times of one list: the time of day, with the date if any of them is not of today, and with the year
// if any is of another one. So either all have a date, or none.
export function clocks(all, at = now()) {
  const today = new Date(at), dates = all.map((t) => new Date(t))
  const years = dates.some((t) => t.getFullYear() !== today.getFullYear())
  const days = years || dates.some((t) => t.toDateString() !== today.toDateString())
  return (time) => {
    const t = new Date(time)
    const day = years ? `${t.getFullYear()}-${pad(t.getMonth() + 1)}-${pad(t.getDate())} ` : days ? `${months[t.getMonth()]} ${pad(t.getDate())} ` : ''
    return `${day}${pad(t.getHours())}:${pad(t.getMinutes())}:${pad(t.getSeconds())}`
  }
}

// clock is one time on its own.
export const clock = (at) => clocks([at])(at)

// since is an age that the page keeps up to date.
export function since(at, before = '', after = '') {
  return h('time', { datetime: at, title: clock(at), 'data-before': before, 'data-after': after, 'data-age': true }, before + age(at) + after)
}

export function tick(root) {
  for (const t of root.querySelectorAll('time[data-age]')) {
    const text = t.dataset.before + age(t.dateTime) + t.dataset.after
    if (t.textContent !== text) t.textContent = text
  }
}

// percent writes a share from 0 to 1 with three digits, as api/verdict does, and never as 100 % if something is missing from it.
export function percent(share) {
  if (share < 1 && share >= 0.9995) return 'over 99.9\u00a0%'
  return `${new Intl.NumberFormat('en', { maximumSignificantDigits: 3, useGrouping: false }).format(100 * share)}\u00a0%`
}
export const many = (n, one, more) => `${n.toLocaleString('en')} ${n === 1 ? one : more}`
export const split = (shares) => (shares || []).map((s) => `${s.percent} % ${s.revision}`).join(', ')

// hue is the number of a Revision's colour. Revisions that follow each other have different ones.
export function hue(revision) {
  const number = /(\d+)$/.exec(revision)
  if (number) return Number(number[1]) % 6
  let sum = 0
  for (const c of revision) sum = (31 * sum + c.codePointAt(0)) % 6
  return sum
}

const tones = {
  Pass: 'good', True: 'good', works: 'good', Fail: 'bad', Error: 'bad', False: 'bad', broken: 'bad', failed: 'bad', undecided: 'unsure',
  Warn: 'unsure', Inconclusive: 'unsure', Running: 'busy', Unknown: 'unsure', waiting: 'unsure', lost: 'unsure',
}
export const tone = (state) => tones[state] || 'plain'
export const badge = (state, text) => h('span', { class: `badge ${tone(state)}` }, text || state)

export function ready(status, reason) {
  if (status === 'True') return badge('True', 'Ready')
  if (status === 'Gone') return badge('', 'Gone')
  const text = status === 'False' ? 'Not ready' : 'Not ready yet'
  return badge(status, reason ? `${text}: ${reason}` : text)
}

export const link = (namespace, name) => `#/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`
