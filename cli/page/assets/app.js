// SPDX-License-Identifier: Apache-2.0

// The page: which view it shows, the stream that feeds it, and what the user does.
import { h, show } from './dom.js'
import { setNow, tick, split } from './text.js'
import { fleet } from './fleet.js'
import { service } from './service.js'

const content = document.getElementById('content')
const wanted = { q: '', only: '', show: 100 }
let stream, before, moved

// place is what the address names: the fleet, or a Service.
function place() {
  const [namespace, name] = location.hash.replace(/^#\//, '').split('/').map(decodeURIComponent)
  return name ? { namespace, name } : null
}

function open(keep) {
  stream?.close()
  if (!keep) before = null
  const at = place()
  const query = new URLSearchParams(at || wanted)
  const mine = stream = new EventSource(`live?${query}`)
  stream.onmessage = (message) => {
    const { now, data } = JSON.parse(message.data)
    setNow(now)
    state('live', 'Live')
    render(data, at)
  }
  stream.onerror = () => {
    if (mine !== stream) return
    state('lost', 'Not connected')
    if (mine.readyState === EventSource.CLOSED) setTimeout(() => mine === stream && open(true), 3000)
  }
}

function state(kind, text) {
  const element = document.getElementById('state')
  if (element.dataset.state === kind) return
  element.dataset.state = kind
  document.getElementById('state-text').textContent = text
  lost = kind === 'lost'
  alerts()
}

let lost = false, troubles = []
function alerts() {
  show(document.getElementById('alerts'),
    lost && h('p', { class: 'notice' }, 'The connection to kubectl cdevents is lost, and what is shown may be old. If the command has ended, start it again and open the address that it prints.'),
    troubles.map((t) => h('p', { class: 'notice' }, t)))
}

function render(data, at) {
  troubles = data.troubles || []
  alerts()
  const scope = data.scope ? `namespace ${data.scope}` : 'all namespaces'
  document.getElementById('where').textContent = data.cluster ? `${scope} · ${data.cluster}` : scope
  document.title = at ? `${at.name} · Releases` : 'Releases'
  const view = data.error ? failed(data, at) : at ? service(data) : fleet(data, wanted)
  // The newest moment is at the right end; it stays in sight unless the user has looked elsewhere.
  const line = content.querySelector('.lanes')
  const follow = !line || line.scrollLeft >= line.scrollWidth - line.clientWidth - 2
  show(content, view, notes(data))
  if (moved) {
    moved = false
    content.querySelector('h1')?.focus()
  }
  const news = before ? changes(before, data) : []
  before = data
  if (news.length) document.getElementById('news').textContent = news.slice(0, 3).join('. ')
  if (follow) content.querySelectorAll('.lanes').forEach(toTheEnd)
}

// toTheEnd shows the newest moments, and no part of a column at the left: there is room behind the last one for that.
function toTheEnd(lanes) {
  const spare = lanes.querySelector('.spare')
  spare.style.width = '0px'
  const hidden = lanes.scrollWidth - lanes.clientWidth
  if (hidden > 0) {
    const left = (element) => element.getBoundingClientRect().left
    const from = left(lanes.querySelector('table')) + lanes.querySelector('.first').offsetWidth
    const at = [...lanes.querySelectorAll('thead th:not(.first)')].map((th) => left(th) - from).find((x) => x >= hidden)
    if (at) spare.style.width = `${at - hidden}px`
  }
  lanes.scrollLeft = lanes.scrollWidth
}

function failed(data, at) {
  return [
    at && h('p', { class: 'back' }, h('a', { href: '#/' }, '← All Services')),
    h('h1', { tabindex: '-1' }, at ? at.name : 'Services'),
    h('p', { class: 'notice' }, data.error),
  ]
}

function notes(data) {
  if (!data.notes?.length) return null
  return h('section', { class: 'notes', 'aria-labelledby': 'notes' },
    h('h2', { id: 'notes' }, 'Left out'),
    h('ul', null, data.notes.map((n) => h('li', null, n))))
}

// changes says in words what is new, for those who do not see it.
function changes(was, is) {
  const out = []
  if (was.service && is.service) {
    if (split(was.service.traffic) !== split(is.service.traffic)) out.push(`Traffic is now ${split(is.service.traffic)}`)
    const known = new Set(was.service.moments.map((m) => m.time + m.text))
    for (const m of is.service.moments) if (!known.has(m.time + m.text)) out.push(m.text)
    for (const run of is.service.runs) {
      const old = was.service.runs.find((r) => r.name === run.name)
      if (run.run && old?.run?.verdict !== run.run.verdict) out.push(`Gate ${run.name}: ${run.run.verdict}`)
    }
  }
  if (was.fleet && is.fleet) {
    const known = new Map(was.fleet.services.map((s) => [`${s.namespace}/${s.name}`, s]))
    for (const s of is.fleet.services) {
      const old = known.get(`${s.namespace}/${s.name}`)
      if (!old) continue
      let changed = false
      if (split(old.traffic) !== split(s.traffic)) changed = out.push(`${s.name}: traffic is now ${split(s.traffic)}`)
      else if (old.lastEventTime !== s.lastEventTime) changed = out.push(`${s.name}: ${s.lastEvent}`)
      if (changed) flash(`${s.namespace}/${s.name}`)
    }
  }
  return out
}

function flash(key) {
  const row = content.querySelector(`[data-key="${CSS.escape(key)}"]`)
  row?.animate?.([{ backgroundColor: 'var(--flash)' }, {}], matchMedia('(prefers-reduced-motion: reduce)').matches ? 0 : 2500)
}

function act(action, element) {
  switch (action) {
    case 'only':
      wanted.only = wanted.only === element.dataset.only ? '' : element.dataset.only
      wanted.show = 100
      return open(true)
    case 'more':
      wanted.show += 400
      return open(true)
    case 'skip':
      return content.focus()
    case 'copy':
      return navigator.clipboard?.writeText(element.dataset.text).then(() => {
        element.textContent = 'Copied'
        setTimeout(() => { element.textContent = 'Copy' }, 1500)
      })
  }
}

document.addEventListener('click', (event) => {
  const element = event.target.closest('[data-do]')
  if (!element) return
  event.preventDefault()
  act(element.dataset.do, element)
})

let typing
document.addEventListener('input', (event) => {
  if (event.target.id !== 'search') return
  clearTimeout(typing)
  typing = setTimeout(() => {
    wanted.q = event.target.value
    open(true)
  }, 200)
})

document.addEventListener('keydown', (event) => {
  if (event.target.matches('input')) return
  if (event.key === '/' && !event.ctrlKey && !event.metaKey) {
    const search = document.getElementById('search')
    if (search) event.preventDefault()
    search?.focus()
  }
})

addEventListener('hashchange', () => {
  if (location.hash === '#content') return
  moved = true
  scrollTo(0, 0)
  show(content, h('p', { class: 'quiet' }, 'Reading the cluster …'))
  open()
})
setInterval(() => tick(content), 1000)
open()
