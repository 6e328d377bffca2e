// SPDX-License-Identifier: Apache-2.0

// Builds the page and serves it, with the dashboards and Prometheus behind it.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));

async function bundle() {
  const { outputFiles } = await build({
    absWorkingDir: here, entryPoints: ['page/main.jsx'], bundle: true, write: false, outdir: 'out', format: 'esm', jsx: 'automatic',
    minify: true, logLevel: 'error', loader: { '.ttf': 'dataurl', '.svg': 'text' },
    alias: {
      // The other form of these packages lacks exports.
      '@grafana/data': './node_modules/@grafana/data/dist/cjs/index.cjs', '@grafana/ui': './node_modules/@grafana/ui/dist/cjs/index.cjs',
      'react-custom-scrollbars-2': './page/scrollbars.jsx',
    }, define: { 'process.env.NODE_ENV': '"production"', global: 'window' },
  });
  return Object.fromEntries(outputFiles.map((f) => [f.path.endsWith('.css') ? '/main.css' : '/main.js', f.text]));
}

const html = '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="/main.css"><body><div id="root"></div><script type="module" src="/main.js"></script>';

/** serve returns the address of the page, and close. */
export async function serve(prometheus) {
  const files = await bundle();
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, 'http://page');
    const send = (type, body, status = 200) => response.writeHead(status, { 'content-type': type }).end(body);
    try {
      if (pathname === '/') send('text/html', html);
      else if (files[pathname]) send(pathname.endsWith('css') ? 'text/css' : 'text/javascript', files[pathname]);
      else if (pathname === '/times') send('application/json', JSON.stringify({ from: prometheus.from, to: prometheus.to, step: prometheus.step }));
      else if (/^\/dashboards\/\w+\.json$/.test(pathname)) send('application/json', await readFile(join(here, '../..', pathname)));
      else if (pathname.startsWith('/api/v1/')) {
        let body = '';
        for await (const part of request) body += part;
        const answer = await fetch(prometheus.url + pathname, { method: 'POST', body, headers: { 'content-type': 'application/x-www-form-urlencoded' } });
        send('application/json', await answer.text(), answer.status);
      } else send('text/plain', 'not found', 404);
    } catch (e) {
      send('text/plain', String(e), 500);
    }
  });
  // The browser's next request would fail if it met a connection that is being closed.
  server.keepAliveTimeout = 0;
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}
