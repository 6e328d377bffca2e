// SPDX-License-Identifier: Apache-2.0

// Opens dashboards in a headless Chromium, on the recording or on a Prometheus that runs.
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import puppeteer from 'puppeteer-core';
import { startPrometheus } from './prometheus.mjs';
import { serve } from './serve.mjs';

const here = dirname(fileURLToPath(import.meta.url));

/** browse runs a function with open(board, { variables, seconds, theme }), which returns a page whose panels are drawn. */
export async function browse(use, running) {
  const prometheus = running ?? (await startPrometheus(join(here, 'recording.txt')));
  let web, browser;
  try {
    web = await serve(prometheus);
    browser = await puppeteer.launch({
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', protocolTimeout: 300_000, args: ['--no-sandbox', '--disable-gpu', '--font-render-hinting=none'],
      env: { ...process.env, LANG: 'en_US.UTF-8', TZ: 'UTC' },
    });
    await use(async (board, { variables = {}, seconds = '', theme = 'dark' }) => {
      const page = await browser.newPage();
      page.on('pageerror', (e) => console.error(`${board}: ${e.message}`));
      await page.setViewport({ width: 1280, height: 1000 });
      const query = new URLSearchParams({ board, theme, seconds, ...Object.fromEntries(Object.entries(variables).map(([k, v]) => [`var-${k}`, v])) });
      // A machine may be busy with other tests.
      page.setDefaultTimeout(300_000);
      await page.goto(`${web.url}/?${query}`, { timeout: 300_000 });
      await page.waitForFunction('window.drawn || document.body.dataset.failed');
      const failed = await page.evaluate(() => document.body.dataset.failed);
      if (failed) throw new Error(`${board}: ${failed}`);
      return page;
    });
  } finally {
    await browser?.close();
    web?.close();
    await prometheus.stop();
  }
}
