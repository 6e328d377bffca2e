// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.cart;

import dev.knativecdevents.placement.pekko.KnativeAsk;
import dev.knativecdevents.placement.pekko.KnativeMetrics;
import dev.knativecdevents.placement.pekko.KnativePlacement;
import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import org.apache.pekko.Done;
import org.apache.pekko.actor.CoordinatedShutdown;
import org.apache.pekko.actor.typed.ActorSystem;
import org.apache.pekko.actor.typed.javadsl.Behaviors;
import org.apache.pekko.cluster.MemberStatus;
import org.apache.pekko.cluster.sharding.typed.HashCodeMessageExtractor;
import org.apache.pekko.cluster.sharding.typed.ShardingEnvelope;
import org.apache.pekko.cluster.sharding.typed.javadsl.ClusterSharding;
import org.apache.pekko.cluster.sharding.typed.javadsl.Entity;
import org.apache.pekko.cluster.typed.Cluster;
import org.apache.pekko.management.cluster.bootstrap.ClusterBootstrap;
import org.apache.pekko.management.javadsl.PekkoManagement;

/** The application in one pod. */
final class App {
  /** How long the final counters can still be scraped. */
  private static final Duration LINGER = Duration.ofSeconds(3);

  private final Settings settings;
  private final ActorSystem<Void> system;
  private final ClusterSharding sharding;
  private final HashCodeMessageExtractor<Ask> extractor;

  private App(Settings settings) throws IOException {
    this.settings = settings;
    Locks locks = Locks.at(settings.locks(), settings.self().pod());
    system = ActorSystem.create(Behaviors.empty(), settings.service(), settings.config());
    sharding = ClusterSharding.get(system);
    extractor = new HashCodeMessageExtractor<>(settings.shards());
    Entity<Ask, ShardingEnvelope<Ask>> cart =
        KnativeAsk.get(system).entity(Cart.KEY, (entity, requests) -> Cart.create(settings, requests, locks, entity.getEntityId())).withMessageExtractor(extractor);
    if (settings.placement()) {
      cart = cart.withAllocationStrategy(KnativePlacement.get(system).strategy(Cart.KEY.name()));
    }
    sharding.init(cart);
  }

  static void start(Settings settings) throws IOException {
    App app = new App(settings);
    if (!settings.kamon()) {
      Metrics.serve(settings.metricsPort(), KnativeMetrics.get(app.system)::text);
    }
    Front front = new Front(settings.port(), app::ask, app::up);
    CoordinatedShutdown ending = CoordinatedShutdown.get(app.system);
    ending.addTask(CoordinatedShutdown.PhaseServiceUnbind(), "front", () -> CompletableFuture.supplyAsync(() -> {
      front.stop();
      return Done.getInstance();
    }));
    ending.addTask(CoordinatedShutdown.PhaseBeforeActorSystemTerminate(), "linger", () ->
        CompletableFuture.supplyAsync(Done::getInstance, CompletableFuture.delayedExecutor(LINGER.toMillis(), TimeUnit.MILLISECONDS)));
    PekkoManagement.get(app.system).start();
    ClusterBootstrap.get(app.system).start();
    front.start();
  }

  /** A pod is Ready when it can handle requests, not when it merely listens. */
  private boolean up() {
    return Cluster.get(system).selfMember().status() == MemberStatus.up();
  }

  private CompletionStage<Answer> ask(String request, String cart) {
    int shard = Integer.parseInt(extractor.shardId(cart));
    return KnativeAsk.get(system)
        .<Ask, Answer>ask(
            sharding.entityRefFor(Cart.KEY, cart), asked -> new Ask(request, cart, shard, settings.self(), asked), settings.patience())
        .exceptionally(
            e -> {
              system.log().warn("no answer to request {} for shard {}: {}", request, shard, e.toString());
              return new Answer(request, cart, shard, settings.self(), Answer.TIMEOUT, null, 0);
            });
  }
}
