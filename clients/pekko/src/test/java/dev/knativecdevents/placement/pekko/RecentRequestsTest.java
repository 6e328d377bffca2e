// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.typesafe.config.ConfigFactory;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.pekko.actor.typed.ActorRef;
import org.apache.pekko.actor.typed.ActorSystem;
import org.apache.pekko.actor.typed.Props;
import org.apache.pekko.actor.typed.javadsl.Behaviors;
import org.apache.pekko.pattern.StatusReply;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** An entity remembers three requests for a minute. */
class RecentRequestsTest {
  private final LinkedBlockingQueue<Object> answers = new LinkedBlockingQueue<>();
  private ActorSystem<Void> system;
  private ActorRef<Object> asker;
  private KnativeMetrics metrics;
  private RecentRequests requests;
  private long now;

  @BeforeEach
  void start() {
    system = ActorSystem.create(Behaviors.<Void>empty(), "requests", ConfigFactory.load());
    asker =
        system.systemActorOf(
            Behaviors.receiveMessage(
                answer -> {
                  answers.add(answer);
                  return Behaviors.same();
                }),
            "asker",
            Props.empty());
    metrics = KnativeMetrics.get(system);
    AskSettings settings = new AskSettings(Duration.ofSeconds(1), Duration.ofSeconds(10), "cart-00001", Duration.ofMinutes(1), 3);
    requests = new RecentRequests(settings, metrics, "Cart", "7", () -> now);
  }

  @AfterEach
  void stop() {
    system.terminate();
  }

  @Test
  void handlesARequestOnce() throws Exception {
    requests.handle(request("a"), () -> "first");
    requests.handle(request("a"), () -> fail("handled twice"));
    requests.handle(request("b"), () -> "second");
    assertEquals(List.of("first", "first", "second"), answers(3));
    counted("stateful_requests_started_total{entity_type=\"Cart\"} 2.0");
    counted("stateful_requests_total{entity_type=\"Cart\",entry_revision=\"cart-00002\",outcome=\"ok\"} 2.0");
    counted("stateful_requests_repeated_total{entity_type=\"Cart\",state=\"answered\"} 1.0");
  }

  @Test
  void dropsARequestThatIsInProgress() throws Exception {
    RecentRequests.Handling<Object> handling = requests.begin(request("a")).orElseThrow();
    assertTrue(requests.begin(request("a")).isEmpty());
    handling.reply("late");
    assertThrows(IllegalStateException.class, () -> handling.reply("again"));
    assertTrue(requests.begin(request("a")).isEmpty());
    assertEquals(List.of("late", "late"), answers(2));
    counted("stateful_requests_repeated_total{entity_type=\"Cart\",state=\"in_progress\"} 1.0");
  }

  @Test
  void forgetsByTimeAndNumber() throws Exception {
    requests.handle(request("a"), () -> "1");
    now = Duration.ofSeconds(60).toNanos();
    assertTrue(requests.begin(request("a")).isEmpty());
    now++;
    requests.handle(request("a"), () -> "2");
    for (String id : List.of("b", "c", "d")) {
      requests.handle(request(id), () -> id);
    }
    requests.handle(request("a"), () -> "3");
    assertEquals(List.of("1", "1", "2", "b", "c", "d", "3"), answers(7));
    // d had no room, and then a.
    counted("stateful_requests_forgotten_total{entity_type=\"Cart\"} 2.0");
  }

  @Test
  void knowsWhatAFormerIncarnationHandled() throws Exception {
    requests.remember("a", "then");
    requests.handle(request("a"), () -> fail("handled twice"));
    assertEquals(List.of("then"), answers(1));
    // A handler that persists an event remembers its own request before it answers.
    RecentRequests.Handling<Object> handling = requests.begin(request("b")).orElseThrow();
    requests.remember("b", "now");
    handling.reply("now");
    assertEquals(List.of("now"), answers(1));
  }

  @Test
  void countsOutcomes() throws Exception {
    requests.begin(request("a")).orElseThrow().replyError("no");
    requests.handle(request("b"), () -> StatusReply.error("no"));
    assertEquals(2, answers(2).size());
    assertThrows(IllegalStateException.class, () -> requests.handle(request("c"), () -> fail("on purpose")));
    assertTrue(requests.begin(request("c")).isEmpty(), "what failed may have had effects");
    RecentRequests.Handling<Object> late = requests.begin(request("d")).orElseThrow();
    now += Duration.ofMillis(10_001).toNanos();
    late.reply("late");
    counted("stateful_requests_total{entity_type=\"Cart\",entry_revision=\"cart-00002\",outcome=\"error\"} 3.0");
    counted("stateful_requests_total{entity_type=\"Cart\",entry_revision=\"cart-00002\",outcome=\"timeout\"} 1.0");
    counted("stateful_shard_requests_total{entity_type=\"Cart\",outcome=\"error\",shard=\"7\"} 3.0");
    counted("stateful_shard_slow_requests_total{entity_type=\"Cart\",shard=\"7\"} 1.0");
    counted("stateful_request_duration_seconds_bucket{entity_type=\"Cart\",le=\"0.5\"} 3");
    counted("stateful_request_duration_seconds_count{entity_type=\"Cart\"} 4");
  }

  @Test
  void boundsEntryRevisions() {
    for (int i = 0; i < 20; i++) {
      requests.handle(new EntityRequest<Object>("id-" + i, "cart-" + i, 10_000, asker), () -> "yes");
    }
    counted("stateful_requests_total{entity_type=\"Cart\",entry_revision=\"cart-15\",outcome=\"ok\"} 1.0");
    counted("stateful_requests_total{entity_type=\"Cart\",entry_revision=\"other\",outcome=\"ok\"} 4.0");
  }

  private EntityRequest<Object> request(String id) {
    return new EntityRequest<>(id, "cart-00002", 10_000, asker);
  }

  private static Object fail(String why) {
    throw new IllegalStateException(why);
  }

  private List<Object> answers(int number) throws InterruptedException {
    List<Object> got = new java.util.ArrayList<>();
    for (int i = 0; i < number; i++) {
      got.add(answers.poll(30, TimeUnit.SECONDS));
    }
    assertTrue(answers.isEmpty());
    return got;
  }

  private void counted(String line) {
    assertTrue(metrics.text().contains(line + "\n"), () -> line + " is missing in\n" + metrics.text());
  }
}
