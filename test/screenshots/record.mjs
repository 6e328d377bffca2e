// SPDX-License-Identifier: Apache-2.0

// Records what a Prometheus has scraped from the controller, for pictures that everyone can make again.
// Usage: node record.mjs PROMETHEUS FROM TO (times as RFC 3339) > recording.txt
import { line } from './series.mjs';

const metrics = '{__name__=~"(canary|cdevents|gate|environment|dora)_.+|process_start_time_seconds",namespace="knative-cdevents",container="controller"}';
const step = 5;

const [, , prometheus, from, to] = process.argv;
const start = Math.floor(Date.parse(from) / 1000 / 60) * 60;
const end = Math.ceil(Date.parse(to) / 1000);
const query = new URLSearchParams({ query: metrics, start, end, step });
const answer = await (await fetch(`${prometheus}/api/v1/query_range`, { method: 'POST', body: query })).json();
if (answer.status !== 'success') throw new Error(`asking ${prometheus}: ${answer.error}`);

const lines = answer.data.result.map(({ metric, values }) => {
  const all = [];
  for (const [t, v] of values) all[Math.round((t - start) / step)] = v;
  // Array.from fills the gaps.
  return line(metric, Array.from(all));
});
console.log('# What a real Prometheus scraped from the controller during "make demo" and test/screenshots/scene; "make record-metrics" writes it.');
console.log(JSON.stringify({ start, step }));
console.log(lines.sort().join('\n'));
