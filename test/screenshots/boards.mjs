// SPDX-License-Identifier: Apache-2.0

// The dashboards, with the selections and the time range, in seconds since the recording began, that the pictures show.

// While the second release is being judged, and has requests. Adjust it after "make record-metrics".
const during = [100, 380];

export const boards = [
  { name: 'canary', variables: { namespace: 'cdevents-demo', service: 'cart' }, seconds: during },
  { name: 'gates', variables: { namespace: 'cdevents-demo', service: 'cart' } },
  { name: 'cdevents', variables: {} },
  { name: 'dora', variables: {} },
  { name: 'fleet', variables: {}, seconds: during },
];
