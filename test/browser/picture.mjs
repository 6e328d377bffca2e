// SPDX-License-Identifier: Apache-2.0

// Takes a picture of a page once it shows some words. The end-to-end tests ask for it:
// node picture.mjs '{"url": "http://…", "file": "picture.png", "words": ["…"], "selector": "main", "width": 1280, "most": 900,
//   "press": ".details", "hide": ".others", "names": {"a-name-of-the-test": "shop"}}'
// The picture shows the element of the selector, and no more of its height than "most". Before, the first element of "press" is
// pressed, those of "hide" are hidden, and names that are specific to a run are replaced.
import puppeteer from 'puppeteer-core'

const { url, file, words = [], selector = 'body', width = 1280, most = 2000, press, hide, names = {} } = JSON.parse(process.argv[2])
const browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage'] })
try {
  const page = await browser.newPage()
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'light' }, { name: 'prefers-reduced-motion', value: 'reduce' }])
  await page.setViewport({ width, height: Math.min(most, 1000) })
  await page.goto(url, { timeout: 60000 })
  const shown = (s) => document.querySelector(s)?.innerText.replaceAll('\u00a0', ' ') ?? ''
  for (const w of words) {
    try {
      await page.waitForFunction((s, w) => document.querySelector(s)?.innerText.replaceAll('\u00a0', ' ').includes(w), { timeout: 60000 }, selector, w)
    } catch {
      throw new Error(`the page does not show ${JSON.stringify(w)}: ${await page.evaluate(shown, selector)}`)
    }
  }
  if (press) await page.click(press)
  if (hide) await page.addStyleTag({ content: `${hide} { display: none !important }` })
  await page.evaluate((names) => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    for (let n = walker.nextNode(); n; n = walker.nextNode()) for (const [from, to] of Object.entries(names)) if (n.data.includes(from)) n.data = n.data.replaceAll(from, to)
  }, names)
  const box = await (await page.$(selector)).boundingBox()
  await page.screenshot({ path: file, clip: { ...box, height: Math.min(box.height, most) }, captureBeyondViewport: true })
} finally {
  await browser.close()
}
