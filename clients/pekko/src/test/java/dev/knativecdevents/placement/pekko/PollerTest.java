// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.pekko.event.NoLogging;
import org.junit.jupiter.api.Test;

class PollerTest {
  @Test
  void goesOnWhateverARequestThrows() throws Exception {
    Deque<Throwable> thrown =
        new ArrayDeque<>(List.of(new StackOverflowError(), new NoClassDefFoundError("a/Class"), new IllegalStateException()));
    CountDownLatch asked = new CountDownLatch(5);
    Poller poller =
        new Poller(
            known -> {
              asked.countDown();
              if (!thrown.isEmpty()) {
                throw PollerTest.<RuntimeException>unchecked(thrown.remove());
              }
              return new Answer.Found(Plans.plan(Plans.fields(7)));
            },
            new Backoff(Duration.ofMillis(1), Duration.ofMillis(2), new SplittableRandom(1)),
            NoLogging.getInstance());
    poller.start();
    try {
      assertTrue(asked.await(30, TimeUnit.SECONDS), () -> "the poller ended: " + asked.getCount() + " of 5 requests were not sent");
      assertEquals(7, poller.known().version());
    } finally {
      poller.stop();
    }
  }

  @Test
  void goesOnAfterAnOlderPlanWithoutANewerOne() throws Exception {
    Deque<Answer> answers =
        new ArrayDeque<>(
            List.of(
                new Answer.Found(Plans.plan(Plans.fields(7))),
                new Answer.NotEnabled(Duration.ZERO),
                // From a replica of the server that lags behind. It is not to be followed.
                new Answer.Found(Plans.plan(Plans.fields(6)))));
    CountDownLatch asked = new CountDownLatch(6);
    Poller poller =
        new Poller(
            known -> {
              asked.countDown();
              return answers.isEmpty() ? new Answer.Found(Plans.plan(Plans.fields(8))) : answers.remove();
            },
            new Backoff(Duration.ofMillis(1), Duration.ofMillis(2), new SplittableRandom(1)),
            NoLogging.getInstance());
    poller.start();
    try {
      assertTrue(asked.await(30, TimeUnit.SECONDS), () -> "the poller ended: " + asked.getCount() + " of 6 requests were not sent");
      assertEquals(8, poller.known().version());
    } finally {
      poller.stop();
    }
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E unchecked(Throwable thrown) throws E {
    throw (E) thrown;
  }
}
