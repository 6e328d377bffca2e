// SPDX-License-Identifier: Apache-2.0

// Takes a picture of a dashboard as it is now, from a Prometheus that runs.
// Usage: node live.mjs PROMETHEUS FROM BOARD VARIABLES FILE (a time as RFC 3339; the variables as JSON)
import { browse } from './browse.mjs';
import { describe, read } from './read.mjs';

const [, , url, from, board, variables, file] = process.argv;
const prometheus = { url, from: Date.parse(from), to: Date.now(), step: 5, stop: () => {} };
await browse(async (open) => {
  const page = await open(board, { variables: JSON.parse(variables) });
  await page.screenshot({ path: file, fullPage: true });
  console.log(describe(await read(page)));
}, prometheus);
