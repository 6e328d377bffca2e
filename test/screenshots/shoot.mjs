// SPDX-License-Identifier: Apache-2.0

// Writes a picture of each dashboard, and the rows that the documentation shows.
// Usage: node shoot.mjs FOLDER DOCS
import { mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { boards } from './boards.mjs';
import { browse } from './browse.mjs';

// The most bytes of a picture that is committed.
const most = 150_000;

// By dashboard: the name of a picture, the title of its first row, and that of the row or panel below it, if there is one.
const pictures = {
  canary: [['canary', 'Where requests go', 'Entered at one'], ['errors', 'Errors by', 'Latency']],
  gates: [['gates', 'Verdicts', 'Requests']],
  cdevents: [['delivery', 'Retries', 'Dropped']],
  fleet: [['fleet', 'Services', 'What is not told']],
  dora: [['dora', 'In the selected time']],
};

const [, , folder, docs] = process.argv;
for (const f of [folder, docs]) mkdirSync(f, { recursive: true });

await browse(async (open) => {
  for (const { name, variables, seconds } of boards) {
    const page = await open(name, { variables, seconds });
    await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
    for (const [picture, first, below] of pictures[name] ?? []) {
      const top = async (title) => page.$$eval('h2, [data-panel]', (all, t) => all.find((h) => h.textContent.startsWith(t)).getBoundingClientRect().top, title);
      const y = await top(first);
      const end = below ? await top(below) : await page.$eval('#board', (board) => board.getBoundingClientRect().bottom);
      const path = join(docs, `grafana-${picture}.png`);
      await page.screenshot({ path, clip: { x: 0, y, width: 1288, height: end - y } });
      const { size } = statSync(path);
      if (size > most) throw new Error(`${path} has ${size} bytes, more than ${most}`);
      console.log(`${path} (${Math.round(size / 1000)} kB)`);
    }
    await page.close();
  }
});
