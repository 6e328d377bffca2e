// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import java.time.Duration;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.SplittableRandom;
import org.apache.pekko.actor.AbstractExtensionId;
import org.apache.pekko.actor.ClassicActorSystemProvider;
import org.apache.pekko.actor.ExtendedActorSystem;
import org.apache.pekko.actor.Extension;
import org.apache.pekko.cluster.sharding.ClusterSharding;
import org.apache.pekko.cluster.sharding.ClusterShardingSettings;
import org.apache.pekko.cluster.sharding.ShardCoordinator.ShardAllocationStrategy;
import org.apache.pekko.event.Logging;

/**
 * Places shards as the traffic split of the Knative Service says.
 *
 * <pre>{@code
 * sharding.init(Entity.of(CART, Cart::create)
 *     .withAllocationStrategy(KnativePlacement.get(system).strategy("Cart")));
 * }</pre>
 */
public final class KnativePlacement implements Extension {
  private static final Id ID = new Id();

  private final ExtendedActorSystem system;
  private final Settings settings;
  private final Optional<Poller> poller;

  private KnativePlacement(ExtendedActorSystem system) {
    this.system = system;
    settings = Settings.from(system.settings().config());
    poller = settings.enabled() ? Optional.of(poller()) : Optional.empty();
    poller.ifPresent(Poller::start);
    KnativeMetrics.get(system).planAge(this::age);
    system.registerOnTermination(() -> poller.ifPresent(Poller::stop));
  }

  private Poller poller() {
    Backoff backoff = new Backoff(settings.minBackoff(), settings.maxBackoff(), new SplittableRandom());
    return new Poller(new Source(settings)::ask, backoff, Logging.getLogger(system, KnativePlacement.class));
  }

  /**
   * The placement of the actor system. The first call reads the configuration, and begins to ask for the plan.
   *
   * @throws IllegalArgumentException if a setting is wrong
   */
  public static KnativePlacement get(ClassicActorSystemProvider system) {
    return ID.get(system);
  }

  /** The strategy for an entity type, by the name that its {@code EntityTypeKey} has. */
  public ShardAllocationStrategy strategy(String entityType) {
    if (entityType == null || entityType.isBlank()) {
      throw new IllegalArgumentException("the entity type has no name: pass the name of its EntityTypeKey");
    }
    ShardAllocationStrategy otherwise =
        ClusterSharding.get(system).defaultShardAllocationStrategy(ClusterShardingSettings.create(system));
    return poller
        .<ShardAllocationStrategy>map(p -> new PlannedStrategy(system, entityType, p::known, settings.staleAfter(), otherwise))
        .orElse(otherwise);
  }

  /** The version of the newest plan. Empty if there is none. */
  public OptionalLong version() {
    Plan plan = known().plan();
    return plan == null ? OptionalLong.empty() : OptionalLong.of(plan.version());
  }

  /** How long ago the server confirmed the newest plan. Empty if there is none. */
  public Optional<Duration> age() {
    Known known = known();
    return Optional.ofNullable(known.plan()).map(plan -> Duration.ofNanos(System.nanoTime() - known.confirmed()));
  }

  private Known known() {
    return poller.map(Poller::known).orElse(Known.NOTHING);
  }

  private static final class Id extends AbstractExtensionId<KnativePlacement> {
    @Override
    public KnativePlacement createExtension(ExtendedActorSystem system) {
      return new KnativePlacement(system);
    }
  }
}
