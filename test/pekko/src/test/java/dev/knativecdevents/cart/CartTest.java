// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.cart;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import com.typesafe.config.ConfigFactory;
import dev.knativecdevents.placement.pekko.KnativeAsk;
import dev.knativecdevents.placement.pekko.KnativeMetrics;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.pekko.actor.typed.ActorSystem;
import org.apache.pekko.actor.typed.javadsl.Behaviors;
import org.apache.pekko.cluster.sharding.typed.javadsl.ClusterSharding;
import org.apache.pekko.cluster.typed.Cluster;
import org.apache.pekko.cluster.typed.Join;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Carts in a cluster of one member, where two of the first 200 requests hang, and seven fail. */
class CartTest {
  private ActorSystem<Void> system;

  @AfterEach
  void stop() {
    system.terminate();
    system.getWhenTerminated().toCompletableFuture().join();
  }

  @Test
  void theEntrysOutcomesAreTheCounted() throws Exception {
    Settings settings =
        Settings.from(
            Map.of("K_REVISION", "cart-00002", "REPORT_ENTRY", "true", "FAIL_RATE", "0.05", "HANG_RATE", "0.02", "PATIENCE_MILLIS", "4000"));
    BlockingQueue<String> said = new LinkedBlockingQueue<>();
    Locks locks =
        new Locks() {
          @Override
          public void take(String entity) {
            said.add("take " + entity);
          }

          @Override
          public void give(String entity) {
            said.add("give " + entity);
          }
        };
    String local = "pekko.remote.artery.canonical { hostname = 127.0.0.1, port = 0 }, pekko.coordinated-shutdown.exit-jvm = off";
    system = ActorSystem.create(Behaviors.<Void>empty(), "cart", ConfigFactory.parseString(local).withFallback(settings.config()));
    Cluster.get(system).manager().tell(Join.create(Cluster.get(system).selfMember().address()));
    KnativeAsk ask = KnativeAsk.get(system);
    ClusterSharding sharding = ClusterSharding.get(system);
    sharding.init(ask.entity(Cart.KEY, (entity, requests) -> Cart.create(settings, requests, locks, entity.getEntityId())));
    // This one hangs, fails, and succeeds.
    for (var expected : List.of(Map.entry(20, "TimeoutException"), Map.entry(49, Answer.ERROR), Map.entry(50, Answer.OK))) {
      String outcome =
          ask.<Ask, Answer>ask(
                  sharding.entityRefFor(Cart.KEY, "a"),
                  asked -> new Ask("request-" + expected.getKey(), "a", 7, settings.self(), asked),
                  Duration.ofSeconds(expected.getKey() == 20 ? 4 : 60))
              .handle((answer, error) -> error == null ? answer.outcome() : error.getClass().getSimpleName())
              .toCompletableFuture()
              .join();
      assertEquals(expected.getValue(), outcome);
    }
    assertEquals(List.of("take a"), List.copyOf(said));
    HttpServer server = Metrics.serve(0, KnativeMetrics.get(system)::text);
    try {
      URI uri = URI.create("http://127.0.0.1:" + server.getAddress().getPort() + "/metrics");
      String text = HttpClient.newHttpClient().send(HttpRequest.newBuilder(uri).build(), HttpResponse.BodyHandlers.ofString()).body();
      for (String line :
          List.of(
              "stateful_requests_started_total{entity_type=\"Cart\"} 3.0",
              "stateful_requests_total{entity_type=\"Cart\",entry_revision=\"cart-00002\",outcome=\"ok\"} 1.0",
              "stateful_requests_total{entity_type=\"Cart\",entry_revision=\"cart-00002\",outcome=\"error\"} 1.0",
              // The hash of cart "a" is 97, and there are 100 shards.
              "stateful_shard_requests_total{entity_type=\"Cart\",outcome=\"ok\",shard=\"97\"} 1.0",
              "stateful_request_duration_seconds_count{entity_type=\"Cart\"} 2")) {
        assertTrue(text.contains(line + "\n"), () -> line + " is missing in\n" + text);
      }
    } finally {
      server.stop(0);
    }
    system.terminate();
    system.getWhenTerminated().toCompletableFuture().join();
    assertEquals(List.of("take a", "give a"), List.copyOf(said));
  }
}
