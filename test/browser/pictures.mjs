// SPDX-License-Identifier: Apache-2.0

// Takes the pictures of the page that the documentation shows, light and dark, after a few changes of what the gate has found.
// TestInBrowser of cli/page starts it with PAGE_PICTURES. Usage: node pictures.mjs FOLDER
import { join } from 'node:path'
import puppeteer from 'puppeteer-core'

const [, , folder] = process.argv
const change = (percent, requests, handled) => fetch(`${process.env.CONTROL}?percent=${percent}&requests=${requests}&handled=${handled}`)
const pause = (seconds) => new Promise((ok) => setTimeout(ok, 1000 * seconds))
const browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage', '--font-render-hinting=none'], env: { ...process.env, TZ: 'UTC' } })
try {
  const page = await browser.newPage()
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'light' }, { name: 'prefers-reduced-motion', value: 'reduce' }])
  await page.setViewport({ width: 1180, height: 1440 })
  await page.goto(`${process.env.PAGE}#/shop/cart`)
  await page.waitForSelector('.gatepanel')
  // The canary's share is seen for a while, then nothing is for half a minute, and then it is again.
  for (let i = 0; i < 20; i++) {
    await change(10, 120 + 6 * i, 0.36 + 0.03 * Math.sin(i))
    await pause(i === 11 ? 30 : 2)
  }
  await page.waitForFunction(() => document.querySelector('.chart') && document.querySelector('.gatepanel').textContent.includes('234 of at least 300'))
  await page.evaluate(() => document.fonts.ready)
  for (const [scheme, file] of [['light', 'dashboard.png'], ['dark', 'dashboard-dark.png']]) {
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }, { name: 'prefers-reduced-motion', value: 'reduce' }])
    await pause(0.5)
    await page.screenshot({ path: join(folder, file) })
  }
} finally {
  await browser.close()
}
