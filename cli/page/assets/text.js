// Words for times, shares and states.
import { h } from './dom.js'

// The clock of the machine that runs the command, which may not be that of the browser.
let offset = 0
export function setNow(now) { offset = new Date(now).getTime() - Date.now() }
export function now() { return Date.now() + offset }

export function age(at) {
  const seconds = Math.max(0, Math.floor((now() - new Date(at)) / 1000))
  if (seconds < 120) return `${seconds} s`
  if (seconds < 2 * 3600) return `${Math.floor(seconds / 60)} min`
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h`
  return `${Math.floor(seconds / 86400)} days`
}

export function duration(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s`
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`
  return `${Math.round(seconds / 3600)} h`
}

const pad = (n) => String(n).padStart(2, '0')

// clock is the time of day, and the date unless it is today.
export function clock(at) {
  const t = new Date(at), today = new Date(now())
  const time = `${pad(t.getHours())}:${pad(t.getMinutes())}:${pad(t.getSeconds())}`
  if (t.toDateString() === today.toDateString()) return time
  return `${t.getFullYear()}-${pad(t.getMonth() + 1)}-${pad(t.getDate())} ${time}`
}

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

export const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)}\u00a0%`
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
  Pass: 'good', True: 'good', works: 'good', Fail: 'bad', Error: 'bad', False: 'bad', broken: 'bad',
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

export function eventTone(name) {
  if (/rolledback|removed|detected|unsettled|deleted/.test(name)) return 'unsure'
  if (/^gate|seen|created/.test(name)) return 'plain'
  return 'good'
}

export const link = (namespace, name) => `#/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`
