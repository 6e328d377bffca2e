// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.typesafe.config.Config;
import com.typesafe.config.ConfigFactory;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import org.apache.pekko.actor.typed.ActorRef;
import org.apache.pekko.actor.typed.ActorSystem;
import org.apache.pekko.actor.typed.Props;
import org.apache.pekko.actor.typed.javadsl.Behaviors;
import org.apache.pekko.cluster.sharding.typed.javadsl.EntityRef;
import org.apache.pekko.cluster.sharding.typed.javadsl.EntityTypeKey;
import org.apache.pekko.cluster.sharding.typed.testkit.javadsl.TestEntityRef;
import org.apache.pekko.pattern.StatusReply;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Asks of an entity that answers as each test wants. */
class KnativeAskTest {
  private static final EntityTypeKey<Add> CART = EntityTypeKey.create(Add.class, "Cart");

  private record Add(String item, EntityRequest<String> request, EntityRequest<StatusReply<String>> status) {}

  private final List<Add> received = new CopyOnWriteArrayList<>();
  private ActorSystem<Void> system;

  @BeforeEach
  void start() {
    system = ActorSystem.create(Behaviors.<Void>empty(), "ask", config("attempt = 100ms, timeout = 30s, revision = cart-00001"));
  }

  @AfterEach
  void stop() {
    system.terminate();
  }

  @Test
  void asksOnceIfThereIsAnAnswer() {
    EntityRef<Add> cart = entity(add -> add.request().replyTo().tell("added " + add.item()));
    assertEquals("added x", ask(cart, Duration.ofSeconds(20)).toCompletableFuture().join());
    assertEquals(1, received.size());
    assertEquals("cart-00001", received.get(0).request().entryRevision());
    assertEquals(20_000, received.get(0).request().timeoutMillis());
    counted("stateful_asks_total{entity_type=\"Cart\",outcome=\"answered\"} 1.0");
    counted("stateful_asks_total{entity_type=\"Cart\",outcome=\"given_up\"} 0.0");
    counted("stateful_ask_retries_total{entity_type=\"Cart\"} 0.0");
  }

  @Test
  void asksAgainUnderTheSameId() throws Exception {
    EntityRef<Add> cart =
        entity(
            add -> {
              if (received.size() == 3) {
                add.request().replyTo().tell("yes");
              }
            });
    assertEquals("yes", ask(cart, Duration.ofSeconds(20)).toCompletableFuture().join());
    // Whoever is answered does not ask again.
    Thread.sleep(300);
    assertEquals(3, received.size());
    assertEquals(1, received.stream().distinct().count());
    counted("stateful_asks_total{entity_type=\"Cart\",outcome=\"answered_after_retry\"} 1.0");
    counted("stateful_ask_retries_total{entity_type=\"Cart\"} 2.0");
  }

  @Test
  void givesUp() {
    EntityRef<Add> cart = entity(add -> {});
    CompletionStage<String> answer = ask(cart, Duration.ofMillis(250));
    Throwable error = assertThrows(CompletionException.class, () -> answer.toCompletableFuture().join()).getCause();
    String message = assertInstanceOf(TimeoutException.class, error).getMessage();
    assertTrue(message.matches("no answer of Cart 7 to request [-0-9a-f]+, asked [23] times within 250 ms: it may have .*"), message);
    assertTrue(received.size() <= 3, () -> "asked " + received.size() + " times");
    counted("stateful_asks_total{entity_type=\"Cart\",outcome=\"given_up\"} 1.0");
  }

  @Test
  void unwrapsStatus() {
    EntityRef<Add> cart =
        entity(add -> add.status().replyTo().tell(add.item().equals("x") ? StatusReply.success("yes") : StatusReply.error("sold out")));
    KnativeAsk ask = KnativeAsk.get(system);
    assertEquals("yes", ask.<Add, String>askWithStatus(cart, r -> new Add("x", null, r)).toCompletableFuture().join());
    CompletionStage<String> refused = ask.askWithStatus(cart, r -> new Add("y", null, r));
    Throwable error = assertThrows(CompletionException.class, () -> refused.toCompletableFuture().join()).getCause();
    assertEquals("sold out", assertInstanceOf(StatusReply.ErrorMessage.class, error).getMessage());
  }

  @Test
  void refusesATimeoutThatEntitiesDoNotRemember() {
    EntityRef<Add> cart = entity(add -> {});
    for (Duration wrong : List.of(Duration.ZERO, Duration.ofSeconds(-1), Duration.ofMinutes(2))) {
      Exception e = assertThrows(IllegalArgumentException.class, () -> ask(cart, wrong));
      assertTrue(e.getMessage().contains("shorter than knative-cdevents.ask.remember, which is PT2M"), e.getMessage());
    }
    assertEquals(List.of(), received);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      textBlock =
          """
          attempt = 1ms                  | knative-cdevents.ask.attempt = "1ms"
          timeout = soon                 | knative-cdevents.ask.timeout = "soon"
          timeout = 1m, remember = 1m    | remember = "1m" (String: 1) must be longer than timeout
          remember-most = 0              | knative-cdevents.ask.remember-most = 0
          remember-most = many           | must be a number from 1 to 1000000
          """)
  void refusesWrongSettings(String settings, String why) {
    Exception e = assertThrows(IllegalArgumentException.class, () -> AskSettings.from(config(settings)));
    assertTrue(e.getMessage().contains(why), e.getMessage());
  }

  private static Config config(String settings) {
    return ConfigFactory.parseString(AskSettings.PATH + " { " + settings + " }").withFallback(ConfigFactory.defaultReference());
  }

  private EntityRef<Add> entity(Consumer<Add> behavior) {
    ActorRef<Add> actor =
        system.systemActorOf(
            Behaviors.receiveMessage(
                add -> {
                  received.add(add);
                  behavior.accept(add);
                  return Behaviors.same();
                }),
            "cart-7",
            Props.empty());
    return TestEntityRef.of(CART, "7", actor);
  }

  private CompletionStage<String> ask(EntityRef<Add> cart, Duration timeout) {
    return KnativeAsk.get(system).ask(cart, request -> new Add("x", request, null), timeout);
  }

  private void counted(String line) {
    String text = KnativeMetrics.get(system).text();
    assertTrue(text.contains(line + "\n"), () -> line + " is missing in\n" + text);
  }
}
