// SPDX-License-Identifier: Apache-2.0

// The dashboards, with the selections and the time range, in seconds since the recording began, that the pictures show.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { firstSample } from './series.mjs';

const recording = readFileSync(join(dirname(fileURLToPath(import.meta.url)), 'recording.txt'), 'utf8');

// From the first request of the sharded Service: two of its releases are judged, and have requests.
const began = firstSample(recording, /^canary_handled_requests_total\{.*kn_service_name="cart"/);
const during = [began - 10, began + 270];

export const boards = [
  { name: 'canary', variables: { namespace: 'cdevents-demo', service: 'cart' }, seconds: during },
  { name: 'gates', variables: { namespace: 'cdevents-demo', service: 'cart' } },
  { name: 'cdevents', variables: {} },
  { name: 'dora', variables: {} },
  { name: 'fleet', variables: {}, seconds: during },
];
