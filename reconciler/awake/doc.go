// SPDX-License-Identifier: Apache-2.0

// Package awake keeps the controller awake while there is something to measure, and only then, in the serverless mode:
// a gate, a placement or an environment needs a process that stays. The core wakes it, and the controller puts itself
// to sleep. Both do so by the same Rule, and both write the replicas of the controller's Deployment.
//
// Its invariants:
//
//   - Whoever has the core look at an object of which something is to be measured, finds the controller awake, or wakes
//     it. It is never put to sleep by what was known before that look: the resourceVersion of the Deployment decides,
//     and a look writes the Deployment if its annotation is older than Refresh.
//   - Nothing else than the replicas and three annotations of the Deployment is written.
//   - What cannot be read is no reason to sleep.
//   - Without a doorbell that holds its Lease, nobody would wake it, so it does not sleep.
//
// The clocks of the core and of the controller may differ by as much as the quiet time is longer than Refresh.
package awake
