// SPDX-License-Identifier: Apache-2.0

// Series as a text that people can read and compare: a line for each, with promtool's notation for values. "3x4" means
// that 3 follows four more times, "_" that there is no value.

/** line writes a series: labels, and one value (or undefined) for each step. */
export function line(metric, values) {
  const { __name__: name, ...labels } = metric;
  const inner = Object.keys(labels).sort().map((l) => `${l}=${JSON.stringify(labels[l])}`).join(',');
  const runs = [];
  for (const v of values) {
    const text = v === undefined ? '_' : shorten(v);
    const last = runs[runs.length - 1];
    if (last?.text === text) last.more++;
    else runs.push({ text, more: 0 });
  }
  return `${name}{${inner}} ${runs.map((r) => (r.more ? `${r.text}x${r.more}` : r.text)).join(' ')}`;
}

// Twelve digits are more than any panel shows.
function shorten(v) {
  const n = Number(v);
  return Number.isFinite(n) ? String(Number(n.toPrecision(12))) : v;
}

/** parse reads what line wrote. */
export function parse(text) {
  const end = text.lastIndexOf('} ');
  const open = text.indexOf('{');
  const values = [];
  for (const run of text.slice(end + 2).split(' ')) {
    const [, value, more] = /^(_|[^x]+)(?:x(\d+))?$/.exec(run);
    for (let i = 0; i <= Number(more ?? 0); i++) values.push(value === '_' ? undefined : value);
  }
  return { name: text.slice(0, open), labels: text.slice(open, end + 1), values };
}

/** openMetrics writes a recording as a file for "promtool tsdb create-blocks-from openmetrics". */
export function openMetrics(recording) {
  const [head, ...lines] = recording.trim().split('\n').filter((l) => !l.startsWith('#'));
  const { start, step } = JSON.parse(head);
  const out = [];
  let before = '';
  for (const { name, labels, values } of lines.map(parse)) {
    // The types say nothing that a query sees.
    if (name !== before) out.push(`# TYPE ${name} unknown`);
    before = name;
    values.forEach((v, i) => {
      if (v !== undefined) out.push(`${name}${labels} ${v} ${start + i * step}`);
    });
  }
  return { start, end: start + step * Math.max(...lines.map((l) => parse(l).values.length - 1)), step, text: out.join('\n') + '\n# EOF\n' };
}

/** firstSample returns how many seconds after the beginning of a recording the first of the series that match has a value. */
export function firstSample(recording, series) {
  const [head, ...lines] = recording.trim().split('\n').filter((l) => !l.startsWith('#'));
  const firsts = lines.filter((l) => series.test(l)).map((l) => parse(l).values.findIndex((v) => v !== undefined));
  if (firsts.length === 0) throw new Error(`the recording has no series ${series}`);
  return Math.min(...firsts) * JSON.parse(head).step;
}
