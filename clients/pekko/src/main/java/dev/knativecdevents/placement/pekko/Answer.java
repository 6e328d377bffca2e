// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import java.time.Duration;

/** What one request for the plan came to. */
sealed interface Answer {
  /** A plan: the newest, or one that a replica of the server still has. */
  record Found(Plan plan) implements Answer {}

  /** The plan that was known is still the newest. */
  record Unchanged() implements Answer {}

  /** The Service has not asked for placement. */
  record NotEnabled(Duration retryAfter) implements Answer {}

  /** The server answered, and gives this pod no plan. */
  record Refused(String why, Duration retryAfter) implements Answer {}

  /** The server did not answer, or not as it should. */
  record Failed(String why, Duration retryAfter) implements Answer {}

  /** The shortest time until the next request, as the server wants it. */
  default Duration retryAfter() {
    return Duration.ZERO;
  }
}
