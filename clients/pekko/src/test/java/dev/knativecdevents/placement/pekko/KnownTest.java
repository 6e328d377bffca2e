// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class KnownTest {
  private static final Duration STALE = Duration.ofSeconds(90);
  private static final long SECOND = Duration.ofSeconds(1).toNanos();

  /**
   * Answers, each at a second: "5" is plan 5 to be enforced, "5o" one to be observed. Then the plan that is followed, and whether
   * shards may move by it.
   */
  @ParameterizedTest(name = "{0}")
  @CsvSource(
      delimiter = '|',
      textBlock =
          """
          rule                                 | answers                     | now | follows | fresh
          nothing is known                     |                             | 0   |         | false
          a plan                               | 0:5                         | 0   | 5       | true
          fresh for 90 s                       | 0:5                         | 90  | 5       | true
          and no longer                        | 0:5                         | 91  | 5       | false
          unchanged: fresh again               | 0:5 80:unchanged            | 170 | 5       | true
          the same plan: fresh again           | 0:5 80:5                    | 170 | 5       | true
          a newer one                          | 0:5 1:6                     | 1   | 6       | true
          a lower one is ignored               | 0:5 1:4                     | 1   | 5       | true
          a lower one confirms nothing         | 0:5 80:4                    | 95  | 5       | false
          unreachable: stays                   | 0:5 1:failed                | 2   | 5       | true
          unreachable: stops moving            | 0:5 1:failed 80:failed      | 91  | 5       | false
          refused: stays, stops at once        | 0:5 1:refused               | 2   | 5       | false
          refused, then not                    | 0:5 1:refused 2:unchanged   | 2   | 5       | true
          refused, then unreachable            | 0:5 1:refused 2:failed      | 2   | 5       | false
          refused before any plan              | 0:refused                   | 0   |         | false
          not enabled: Pekko's default         | 0:5 1:disabled              | 1   |         | false
          not enabled, then no plan yet        | 0:5 1:disabled 2:refused    | 2   |         | false
          not enabled, then a replica is behind| 0:5 1:disabled 2:4          | 2   |         | false
          not enabled, then enabled            | 0:5 1:disabled 2:6          | 2   | 6       | true
          not enabled, and unreachable         | 0:5 1:disabled 2:failed     | 2   |         | false
          observe: Pekko's default             | 0:5o                        | 0   |         | true
          observe, and unreachable             | 0:5o 1:failed               | 100 |         | false
          observe, then enforce                | 0:5o 1:6                    | 1   | 6       | true
          enforce, then observe                | 0:5 1:6o                    | 1   |         | true
          """,
      useHeadersInDisplayName = true)
  void isWhatTheAnswersSay(String rule, String answers, long now, Long follows, boolean fresh) {
    // The clock may begin anywhere, and overflow.
    long zero = Long.MAX_VALUE - 10 * SECOND;
    Known known = Known.NOTHING;
    for (String answer : answers == null ? new String[0] : answers.split(" ")) {
      String[] parts = answer.split(":");
      known = known.after(answer(parts[1]), zero + Long.parseLong(parts[0]) * SECOND);
    }
    assertEquals(follows, known.toFollow().map(Plan::version).orElse(null));
    assertEquals(fresh, known.fresh(zero + now * SECOND, STALE));
  }

  private static Answer answer(String said) {
    return switch (said) {
      case "unchanged" -> new Answer.Unchanged();
      case "failed" -> new Answer.Failed("", Duration.ZERO);
      case "refused" -> new Answer.Refused("", Duration.ZERO);
      case "disabled" -> new Answer.NotEnabled(Duration.ZERO);
      default -> {
        Map<String, Object> fields = Plans.fields(Long.parseLong(said.replace("o", "")));
        fields.put("mode", said.endsWith("o") ? "observe" : "enforce");
        yield new Answer.Found(Plans.plan(fields));
      }
    };
  }

  @org.junit.jupiter.api.Test
  void nothingIsNeverFresh() {
    assertFalse(Known.NOTHING.fresh(0, STALE));
    assertTrue(Known.NOTHING.toFollow().isEmpty());
  }
}
