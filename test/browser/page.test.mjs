// SPDX-License-Identifier: Apache-2.0

// What the dashboard of kubectl cdevents is for a person with a browser. TestInBrowser of cli/page starts it: PAGE is the address
// of a page whose cluster is a real API server, and CONTROL changes the traffic of Service cart and the numbers of its gate.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { after, before, test } from 'node:test'
import puppeteer from 'puppeteer-core'

const url = process.env.PAGE
const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const requested = new Set(), complaints = []
let browser, page

before(async () => {
  // Containers have no sandbox for root, and a small /dev/shm.
  browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage'] })
})
after(() => browser?.close())

async function open(at = '', { scheme = 'light', width = 1280 } = {}) {
  await page?.close()
  page = await browser.newPage()
  page.on('request', (r) => requested.add(r.url()))
  page.on('console', (m) => ['error', 'warn'].includes(m.type()) && complaints.push(m.text()))
  page.on('pageerror', (e) => complaints.push(e.message))
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }, { name: 'prefers-reduced-motion', value: 'reduce' }])
  await page.setViewport({ width, height: 900 })
  await page.goto(url + at)
  await page.waitForSelector('h1')
}

const change = (percent, requests, handled) => fetch(`${process.env.CONTROL}?percent=${percent}&requests=${requests}&handled=${handled}`).then((r) => assert.equal(r.status, 200))
const text = (selector) => page.$eval(selector, (e) => e.textContent)
const seen = (words, selector = 'main') => page.waitForFunction((s, w) => document.querySelector(s)?.textContent.replaceAll('\u00a0', ' ').includes(w), { timeout: 10000 }, selector, words)
const focused = () => page.evaluate(() => document.activeElement?.textContent.trim())

for (const scheme of ['light', 'dark']) {
  for (const width of [1280, 420]) {
    for (const [name, at] of [['fleet', ''], ['Service', '#/shop/cart'], ['missing Service', '#/shop/nope']]) {
      test(`axe finds nothing: ${name}, ${scheme}, ${width} wide`, async () => {
        await open(at, { scheme, width })
        for (const details of await page.$$('details')) await details.evaluate((e) => { e.open = true })
        await page.evaluate(axe)
        const { violations, passes } = await page.evaluate(() => window.axe.run())
        assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 120) + ' ' + n.failureSummary).join(' | ')}`), [])
        assert.ok(passes.some((p) => p.id === 'color-contrast'), 'contrast was not looked at')
        const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
        assert.ok(wider <= 0, `the page is ${wider} px wider than the window`)
      })
    }
  }
}

test('the colours follow the system', async () => {
  const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor)
  await open('', { scheme: 'light' })
  const light = await back()
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'dark' }])
  assert.notEqual(await back(), light)
})

for (const at of ['', '#/shop/cart']) {
  test(`the keyboard reaches everything: ${at || 'fleet'}`, async () => {
    await open(at)
    const all = await page.$$eval('a[href], button, input, summary, [tabindex="0"]', (elements) => elements.filter((e) => e.checkVisibility()).map((e, i) => { e.dataset.nth = i; return i }))
    const reached = new Set()
    for (let i = 0; i < all.length + 3; i++) {
      await page.keyboard.press('Tab')
      const { nth, outline } = await page.evaluate(() => ({ nth: document.activeElement.dataset.nth, outline: getComputedStyle(document.activeElement).outlineStyle }))
      if (nth === undefined) continue
      reached.add(Number(nth))
      assert.notEqual(outline, 'none', `no focus is shown on ${await focused()}`)
    }
    assert.deepEqual([...reached].sort((a, b) => a - b), all)
  })
}

test('a Service is opened, and left, with the keyboard', async () => {
  await open()
  await page.keyboard.press('Tab')
  assert.equal(await focused(), 'Skip to the content')
  await page.keyboard.press('Enter')
  assert.equal(await page.evaluate(() => document.activeElement.tagName), 'MAIN')
  await page.keyboard.press('/')
  await page.keyboard.type('car')
  await page.waitForFunction(() => document.querySelectorAll('section[data-key=services] tbody tr').length === 1)
  assert.equal(await page.evaluate(() => document.activeElement.value), 'car', 'the search has lost its focus')
  await page.keyboard.press('Tab')
  assert.equal(await focused(), 'cart')
  await page.keyboard.press('Enter')
  await page.waitForFunction(() => document.activeElement?.tagName === 'H1' && document.activeElement.textContent === 'cart')
  assert.match(await page.title(), /^cart/)
  await page.goBack()
  await page.waitForSelector('#search')
  assert.equal(await page.$eval('#search', (e) => e.value), 'car', 'the search is forgotten')
})

test('the numbers above the list choose what it shows', async () => {
  await open()
  await page.focus('[data-only=ailing]')
  await page.keyboard.press('Space')
  await page.waitForFunction(() => document.querySelectorAll('section[data-key=services] tbody tr').length === 1)
  assert.match(await text('section[data-key=services] tbody'), /hooks/)
  assert.equal(await page.$eval('[data-only=ailing]', (e) => e.getAttribute('aria-pressed')), 'true')
})

// The plugin writes times and shares in the same way: its tests have the same examples.
test('times and shares are written as in the terminal', async () => {
  const { spans, shares, stamps } = JSON.parse(await readFile(new URL('../../cli/words/testdata/words.json', import.meta.url), 'utf8'))
  await open()
  const got = await page.evaluate(async (spans, shares, stamps) => {
    const text = await import('./text.js')
    return {
      spans: spans.map(([s]) => text.span(s)), shares: shares.map(([s]) => text.percent(s).replace('\u00a0', ' ')),
      stamps: stamps.map((e) => e.times.map(text.clocks(e.times, new Date(e.now).getTime()))),
    }
  }, spans, shares, stamps)
  assert.deepEqual(got, { spans: spans.map((e) => e[1]), shares: shares.map((e) => e[1]), stamps: stamps.map((e) => e.shown) })
})

test('a line is not drawn through a stretch without data, and a long pause is a break', async () => {
  await open()
  const got = await page.evaluate(async () => {
    const at = (seconds) => seconds.map((s) => ({ time: new Date(s * 1000).toISOString() }))
    const [{ stretches }, { long }] = [await import('./gate.js'), await import('./lanes.js')]
    return { stretches: stretches(at([0, 4, 8, 68, 72])).map((s) => s.length), steady: stretches(at([0, 60, 120])).length, long: long(at([0, 1, 82801, 83041, 83124])), short: long(at([0, 5, 15])) }
  })
  assert.deepEqual(got, { stretches: [3, 2], steady: 1, long: [0, 82800, 0, 0], short: [0, 0] })
})

test('bars begin at 0 and end where their scale says', async () => {
  await open('#/shop/cart')
  await change(10, 120, 0.36)
  await seen('36 %, more than the 20 % that the gate accepts', '.gatepanel')
  const widths = await page.$$eval('.gatepanel .figure .meter', (all) => all.map((m) => (m.querySelector('.fill').getBoundingClientRect().width / m.getBoundingClientRect().width).toFixed(2)))
  assert.deepEqual(widths, ['0.10', '0.36', '0.40', '1.00'], 'what entered, what was handled, and the requests of both sides')
  assert.match(await text('.gatepanel .scale'), /^0100\s%$/)
  assert.match(await text('.gatepanel .figures'), /120 of at least 300.*1,080; at least 300 ✓/)
})

test('the time line begins with a whole column', async () => {
  await open('#/shop/cart', { width: 1000 })
  await page.waitForSelector('.lanes')
  const cut = await page.$eval('.lanes', (lanes) => {
    const edge = lanes.querySelector('.first').getBoundingClientRect().right
    return [...lanes.querySelectorAll('thead th:not(.first)')].map((th) => th.getBoundingClientRect()).filter((r) => r.left < edge - 1 && r.right > edge + 1).length
  })
  assert.equal(cut, 0, 'a column is cut off')
})

test('a change appears without a reload, and is said', async () => {
  await open('#/shop/cart')
  await page.evaluate(() => { window.loaded = 'once' })
  await page.focus('.lanes')
  await change(30, 210, 0.31)
  await seen('30 % cart-00002', 'section[data-key=now]')
  await seen('31 %', '.gatepanel')
  await seen('210 of at least 300', '.gatepanel')
  await seen('traffic seen', '.lanes')
  await seen('Traffic is now 70 % cart-00001, 30 % cart-00002', '#news')
  await change(60, 260, 0.58)
  await page.waitForSelector('.chart svg[role=img]')
  await seen('60 % cart-00002', 'section[data-key=now]')
  assert.equal(await page.evaluate(() => window.loaded), 'once')
  assert.ok(await page.evaluate(() => document.activeElement.matches('.lanes')), 'the focus was lost')
})

test('a change of one Service is said in the fleet', async () => {
  await open()
  await seen('cart')
  await change(40, 270, 0.4)
  await seen('cart: traffic is now 60 % cart-00001, 40 % cart-00002', '#news')
})

test('nothing is loaded from, or sent to, another host', async () => {
  await open('#/shop/cart')
  const answers = await page.evaluate(async () => {
    const blocked = []
    document.addEventListener('securitypolicyviolation', (e) => blocked.push(e.effectiveDirective))
    const tries = [
      () => fetch('https://example.com/'),
      () => new Promise((ok, no) => { const i = new Image(); i.onload = ok; i.onerror = no; i.src = 'http://localhost:1/x.png' }),
      () => { document.body.innerHTML = '<p>markup from text</p>' },
    ]
    const out = []
    for (const attempt of tries) out.push(await Promise.resolve().then(attempt).then(() => 'done', () => 'refused'))
    await new Promise((r) => setTimeout(r, 100))
    return { out, blocked: blocked.sort() }
  })
  assert.deepEqual(answers.out, ['refused', 'refused', 'refused'])
  assert.deepEqual(answers.blocked, ['connect-src', 'img-src', 'require-trusted-types-for'])
  // What the tries above have caused is a complaint of the browser, and nothing else is.
  assert.deepEqual(complaints.filter((c) => !/Content Security Policy|TrustedHTML|Refused to connect|violates the following/.test(c)), [])
  const here = new URL(url).origin
  assert.deepEqual([...requested].filter((r) => new URL(r).origin !== here && !r.startsWith('https://example.com') && !r.startsWith('http://localhost:1/')), [])
})
