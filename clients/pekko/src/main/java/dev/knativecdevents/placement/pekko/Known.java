// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import java.time.Duration;
import java.util.Optional;

/**
 * What is known of the plan, after all answers so far.
 *
 * @param plan is the newest one; null before the first, and if the Service has no placement
 * @param version is the highest of all plans so far
 * @param withdrawn means that the server answers, but gives this pod no plan any more
 * @param settled means that the server has once said what holds: a plan, or that the Service has no placement
 * @param confirmed is the time at which the server last said that the plan is the newest, as of {@link System#nanoTime}
 */
record Known(Plan plan, long version, boolean withdrawn, boolean settled, long confirmed) {
  static final Known NOTHING = new Known(null, 0, false, false, 0);

  Known after(Answer answer, long now) {
    if (answer instanceof Answer.Found found) {
      // A replica of the server that lags behind confirms nothing.
      return found.plan().version() < version ? this : new Known(found.plan(), found.plan().version(), false, true, now);
    }
    if (answer instanceof Answer.Unchanged) {
      return new Known(plan, version, false, settled, now);
    }
    if (answer instanceof Answer.NotEnabled) {
      return new Known(null, version, false, true, now);
    }
    if (answer instanceof Answer.Refused) {
      return new Known(plan, version, true, settled, confirmed);
    }
    return this;
  }

  /** The plan to follow. Empty: place as Pekko does by default, and move shards only if {@link #settled}. */
  Optional<Plan> toFollow() {
    return Optional.ofNullable(plan).filter(p -> p.mode().equals(Plan.ENFORCE));
  }

  /** Whether shards may be moved by this plan. */
  boolean fresh(long now, Duration staleAfter) {
    return plan != null && !withdrawn && now - confirmed <= staleAfter.toNanos();
  }
}
