// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class BackoffTest {
  private static final Duration MIN = Duration.ofSeconds(1);
  private static final Duration MAX = Duration.ofSeconds(30);
  private static final Answer FAILED = new Answer.Failed("", Duration.ZERO);

  @Test
  void growsWithJitterUntilAnAnswer() {
    Backoff backoff = new Backoff(MIN, MAX, new SplittableRandom(1));
    for (int round = 0; round < 2; round++) {
      for (int longest : new int[] {1, 2, 4, 8, 16, 30, 30, 30}) {
        within(backoff.after(FAILED, Duration.ZERO), longest * 500L, longest * 1000L);
      }
      for (int i = 0; i < 100; i++) {
        within(backoff.after(FAILED, Duration.ZERO), 15_000, 30_000);
      }
      assertEquals(Duration.ZERO, backoff.after(new Answer.Unchanged(), MAX));
    }
    Backoff another = new Backoff(MIN, MAX, new SplittableRandom(2));
    assertNotEquals(new Backoff(MIN, MAX, new SplittableRandom(1)).after(FAILED, MIN), another.after(FAILED, MIN));
  }

  @Test
  void doesWhatTheServerWants() {
    Backoff backoff = new Backoff(MIN, MAX, new SplittableRandom(1));
    within(backoff.after(new Answer.Failed("", Duration.ofSeconds(60)), Duration.ZERO), 60_000, 61_000);
    within(backoff.after(new Answer.Refused("", Duration.ofSeconds(60)), Duration.ZERO), 60_000, 61_000);
    // One second is less than what three failures deserve.
    within(backoff.after(new Answer.NotEnabled(Duration.ofSeconds(1)), Duration.ZERO), 2_000, 4_000);
  }

  @Test
  void doesNotFloodAServerThatDoesNotWait() {
    Backoff backoff = new Backoff(MIN, MAX, new SplittableRandom(1));
    assertEquals(Duration.ofMillis(900), backoff.after(new Answer.Unchanged(), Duration.ofMillis(100)));
  }

  private static void within(Duration pause, long least, long most) {
    assertTrue(pause.toMillis() >= least && pause.toMillis() <= most, () -> pause + " is not from " + least + " to " + most);
  }
}
