// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import java.time.Duration;
import java.util.random.RandomGenerator;

/** How long to pause between two requests. */
final class Backoff {
  private final Duration min;
  private final Duration max;
  private final RandomGenerator random;
  private int failures;

  Backoff(Duration min, Duration max, RandomGenerator random) {
    this.min = min;
    this.max = max;
    this.random = random;
  }

  /** The pause after an answer that took so long. */
  Duration after(Answer answer, Duration took) {
    if (answer instanceof Answer.Found || answer instanceof Answer.Unchanged) {
      failures = 0;
      // The server waits for us. This is for one that does not.
      Duration rest = min.minus(took);
      return rest.isNegative() ? Duration.ZERO : rest;
    }
    // 2^20 times the minimum is longer than any maximum.
    long longest = Math.min(max.toNanos(), min.toNanos() << Math.min(failures++, 20));
    Duration pause = Duration.ofNanos(longest / 2 + random.nextLong(longest / 2 + 1));
    if (answer.retryAfter().compareTo(pause) > 0) {
      // All pods are told the same, and must not come back at the same moment.
      return answer.retryAfter().plusNanos(random.nextLong(min.toNanos()));
    }
    return pause;
  }
}
