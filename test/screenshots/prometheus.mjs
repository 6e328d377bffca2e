// SPDX-License-Identifier: Apache-2.0

// Starts Debian's Prometheus on the recording: a real one, so the queries are really evaluated.
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openMetrics } from './series.mjs';

async function freePort() {
  return new Promise((resolve, reject) => {
    const s = createServer().on('error', reject).listen(0, '127.0.0.1', () => {
      const { port } = s.address();
      s.close(() => resolve(port));
    });
  });
}

/** startPrometheus returns the address of a Prometheus that has the recording, its times in milliseconds, and stop. */
export async function startPrometheus(file) {
  const dir = mkdtempSync(join(tmpdir(), 'screenshots-'));
  const { text, start, end, step } = openMetrics(readFileSync(file, 'utf8'));
  writeFileSync(join(dir, 'recording'), text);
  execFileSync('promtool', ['tsdb', 'create-blocks-from', 'openmetrics', join(dir, 'recording'), join(dir, 'data')], { stdio: ['ignore', 'ignore', 'inherit'] });
  writeFileSync(join(dir, 'prometheus.yml'), `global: {scrape_interval: ${step}s}\n`);
  const address = `127.0.0.1:${await freePort()}`;
  const server = spawn('prometheus', [
    `--config.file=${join(dir, 'prometheus.yml')}`, `--storage.tsdb.path=${join(dir, 'data')}`, '--storage.tsdb.retention.time=100y',
    // A recording has no marks of series that end, only gaps.
    `--web.listen-address=${address}`, '--log.level=error', `--query.lookback-delta=${step}s`,
  ], { stdio: ['ignore', 'inherit', 'inherit'] });
  const stop = async () => {
    const ended = new Promise((resolve) => server.once('exit', resolve));
    server.kill('SIGTERM');
    await ended;
    rmSync(dir, { recursive: true });
  };
  const url = `http://${address}`;
  for (let i = 0; ; i++) {
    try {
      if ((await fetch(`${url}/-/ready`)).ok) return { url, from: start * 1000, to: end * 1000, step, stop };
    } catch {
      // It does not listen yet.
    }
    if (i > 300 || server.exitCode !== null) throw new Error('Prometheus did not start');
    await new Promise((r) => setTimeout(r, 100));
  }
}
