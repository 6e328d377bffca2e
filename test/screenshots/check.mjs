// SPDX-License-Identifier: Apache-2.0

// Checks the rendered dashboards: legends, colors, axes and empty states, as a browser shows them.
// Usage: node check.mjs [--update]; expected/NAME.txt has what each dashboard shows of the recording.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { boards } from './boards.mjs';
import { browse } from './browse.mjs';
import { describe, read } from './read.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const update = process.argv.includes('--update');
const failures = [];
const fail = (...what) => failures.push(what.join(': '));

const revision = /(?:^|→ )(\S+-\d{5})(?= (?!→)|$)/;

/** checkColors: a Revision has one color in all panels, two have two, and what is required is dashed, and nothing else is. */
function checkColors(board, panels) {
  const colors = new Map();
  for (const { title, legend } of panels) {
    for (const { label, color, dashed } of legend) {
      if (/ (required|needed)$/.test(label) !== dashed && !/ baseline$/.test(label)) fail(board, title, `${label} is ${dashed ? '' : 'not '}dashed`);
      const name = revision.exec(label)?.[1];
      if (!name) continue;
      const first = colors.get(name) ?? { color, title };
      colors.set(name, first);
      if (first.color !== color) fail(board, title, `${name} is ${color}, and ${first.color} in ${first.title}`);
    }
  }
  const distinct = new Set([...colors.values()].map((c) => c.color));
  if (distinct.size !== colors.size) fail(board, `two Revisions have one color: ${JSON.stringify([...colors])}`);
  return colors.size;
}

function checkPanels(board, panels, source) {
  for (const p of panels) {
    if (/\bNaN\b|undefined|\[object/.test(p.text)) fail(board, p.title, `shows ${p.text}`);
    if (p.legend.some((l) => l.label === 'axis')) fail(board, p.title, 'shows the query of its axis');
    if (p.legend.length === 0 && p.states.length === 0 && p.rows.length === 0 && p.empty === undefined) fail(board, p.title, 'shows nothing at all');
    const labels = p.legend.map((l) => l.label);
    if (new Set(labels).size !== labels.length) fail(board, p.title, `shows a series twice: ${labels}`);
    const wanted = source.panels.find((s) => s.type !== 'row' && s.title === p.title).fieldConfig.defaults.noValue;
    if (p.empty !== undefined && p.empty !== wanted) fail(board, p.title, `says ${p.empty} without data`);
    // Without a hint, the plot chooses 100 for zeros.
    if (p.axis?.most === 0 && p.axis.end > 1) fail(board, p.title, `shows zeros on an axis up to ${p.axis.end}`);
  }
}

await browse(async (open) => {
  mkdirSync(join(here, 'expected'), { recursive: true });
  for (const { name, variables, seconds } of boards) {
    const source = JSON.parse(readFileSync(join(here, '../../dashboards', `${name}.json`), 'utf8'));
    const page = await open(name, { variables, seconds });
    const panels = await read(page);
    checkPanels(name, panels, source);
    const revisions = checkColors(name, panels);
    if (name === 'canary' && revisions !== 3) fail(name, `${revisions} Revisions are shown`);
    const marks = await page.evaluate(() => window.marks.map((m) => `${new Date(m.time).toISOString()} ${m.text}`));
    if (new Set(marks).size !== marks.length) fail(name, `a mark is drawn twice: ${marks}`);
    const text = `${describe(panels)}## marks\n${marks.sort().join('\n')}\n`;
    const file = join(here, 'expected', `${name}.txt`);
    if (update) writeFileSync(file, text);
    else if (readFileSync(file, 'utf8') !== text) {
      const old = readFileSync(file, 'utf8').split('\n');
      const now = text.split('\n');
      fail(name, `differs from ${file}; if it should, run "make test-screenshots UPDATE=1":\n  ${now.filter((l) => !old.includes(l)).map((l) => `+ ${l}`).concat(old.filter((l) => !now.includes(l)).map((l) => `- ${l}`)).join('\n  ')}`);
    }
    await page.close();

    // A Service that nobody measures: every panel says why it is empty.
    const bare = await open(name, { variables: { ...variables, namespace: 'nowhere', service: 'nothing', source: 'nothing' } });
    const nothing = await read(bare);
    checkPanels(name, nothing, source);
    if (name !== 'fleet' && name !== 'cdevents' && nothing.some((p) => p.legend.length + p.states.length > 0 && !/all Services/.test(p.title))) fail(name, `shows series of a Service that is not there: ${nothing.filter((p) => p.legend.length).map((p) => p.title)}`);
    await bare.close();
  }
});
if (failures.length > 0) {
  console.error(failures.join('\n'));
  process.exit(1);
}
console.log(update ? 'wrote what the dashboards show' : `${boards.length} dashboards show what is expected`);
