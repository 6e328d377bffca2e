// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.cart;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.List;
import java.util.function.Predicate;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class FatesTest {
  /** The same numbers as in test/sharded, for the same ids and rates. */
  @Test
  void bothApplicationsShareOneTruth() {
    Fates fates = new Fates(0.05, 0.02, 0.02, Duration.ofSeconds(1));
    assertEquals(List.of(49, 55, 65, 68, 122, 172, 192), of(fates, Fates.Fate::fails));
    assertEquals(List.of(3, 9, 93, 180), of(fates, Fates.Fate::slow));
    assertEquals(List.of(20, 69), of(fates, Fates.Fate::hangs));
  }

  @Test
  void nobodyIsDoomedWithoutRates() {
    Fates fates = new Fates(0, 0, 0, Duration.ofSeconds(1));
    assertEquals(List.of(), of(fates, f -> f.fails() || f.slow() || f.hangs()));
  }

  private static List<Integer> of(Fates fates, Predicate<Fates.Fate> doomed) {
    return IntStream.range(0, 200).filter(i -> doomed.test(fates.of("request-" + i))).boxed().toList();
  }
}
