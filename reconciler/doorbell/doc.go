// SPDX-License-Identifier: Apache-2.0

// Package doorbell rings the core of the serverless mode when something changes that the core might report.
//
// It watches metadata only, and keeps no object. A ring is an HTTP request that names a key, usually a Service: the
// core reads what that is, and believes nothing else of a ring. So a ring may come twice, late, or in any order.
//
// Its invariants:
//   - No ring is lost. A change counts as answered when a ring that was sent after it was answered with 2xx. The
//     resourceVersion up to which everything is answered is stored in a Lease, and the next process continues there.
//   - When the API server no longer has the changes since then, everything is listed, and what is newer is rung. A
//     list shows no deletion, so a sweep follows it: a ring for which the core itself looks for what is gone.
//   - A key has at most one ring under way. Changes meanwhile ring it once more afterwards.
//   - A core that does not answer gets one ring at a time, ever more rarely, no matter how many keys wait.
//   - Memory does not grow with the number of objects, except by the time at which each CDEventSubject wants to be
//     woken. At most Config.MostWaiting keys wait; while there are as many, nothing more is read from the API server.
//   - It imports the standard library only, which is what keeps it small.
package doorbell
