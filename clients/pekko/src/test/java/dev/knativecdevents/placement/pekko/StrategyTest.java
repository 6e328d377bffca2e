// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.typesafe.config.ConfigFactory;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.pekko.actor.ActorRef;
import org.apache.pekko.actor.ActorSystem;
import org.apache.pekko.actor.ExtendedActorSystem;
import org.apache.pekko.cluster.Cluster;
import org.apache.pekko.cluster.sharding.ShardCoordinator.ShardAllocationStrategy;
import org.apache.pekko.cluster.sharding.ShardCoordinator.StartableAllocationStrategy;
import org.apache.pekko.dispatch.Futures;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Set;
import scala.concurrent.Future;
import scala.jdk.javaapi.CollectionConverters;

/** The strategy as a coordinator calls it, on the only member of a cluster. */
class StrategyTest {
  private static final Duration STALE = Duration.ofSeconds(90);

  private static ActorSystem system;
  private static ActorRef region;

  @BeforeAll
  static void start() throws InterruptedException {
    system = ActorSystem.create("cart", ConfigFactory.load("cluster"));
    CountDownLatch up = new CountDownLatch(1);
    Cluster.get(system).registerOnMemberUp(up::countDown);
    Cluster.get(system).join(Cluster.get(system).selfAddress());
    assertTrue(up.await(60, TimeUnit.SECONDS));
    region = system.deadLetters();
  }

  @AfterAll
  static void stop() {
    system.terminate();
  }

  /** A strategy that notes what it gets, and how it is started. */
  private static final class Noting implements StartableAllocationStrategy {
    final Future<ActorRef> allocated = Futures.successful(region);
    final Future<Set<String>> rebalanced = Futures.successful(set("9"));
    List<Object> got = List.of();
    boolean started;

    @Override
    public void start() {
      started = true;
    }

    @Override
    public Future<ActorRef> allocateShard(
        ActorRef requester, String shard, scala.collection.immutable.Map<ActorRef, IndexedSeq<String>> current) {
      got = List.of(requester, shard, current);
      return allocated;
    }

    @Override
    public Future<Set<String>> rebalance(scala.collection.immutable.Map<ActorRef, IndexedSeq<String>> current, Set<String> moving) {
      got = List.of(current, moving);
      return rebalanced;
    }
  }

  @Test
  void findsItsOwnRegion() {
    String self = Cluster.get(system).selfAddress().toString();
    assertTrue(self.startsWith("pekko://cart@127.0.0.1:") && region.path().address().hasLocalScope());
    Noting other = new Noting();
    ShardAllocationStrategy strategy = strategy(known("enforce", "Cart", self, List.of(0)), other);
    // It would go to the region that has none, if its own were not found.
    ActorRef remote = ((ExtendedActorSystem) system).provider().resolveActorRef("pekko://cart@127.0.0.1:1/system/sharding/Cart");
    scala.collection.immutable.Map<ActorRef, IndexedSeq<String>> current = current(Map.of(region, List.of("1"), remote, List.of()));
    assertSame(region, strategy.allocateShard(ActorRef.noSender(), "0", current).value().get().get());
    // There is nobody else to move it to.
    assertEquals(set(), strategy.rebalance(current("0"), set()).value().get().get());
    assertEquals(List.of(), other.got);
  }

  @Test
  void doesExactlyWhatTheOtherOneDoesIfThereIsNothingToFollow() {
    String self = Cluster.get(system).selfAddress().toString();
    Known disabled = known("enforce", "Cart", self, List.of(0)).after(new Answer.NotEnabled(Duration.ZERO), 0);
    for (Known known :
        List.of(disabled, known("observe", "Cart", self, List.of(0)), known("enforce", "Order", self, List.of(0)))) {
      Noting other = new Noting();
      ShardAllocationStrategy strategy = strategy(known, other);
      scala.collection.immutable.Map<ActorRef, IndexedSeq<String>> current = current("1");
      Set<String> moving = set("1");
      assertSame(other.allocated, strategy.allocateShard(region, "0", current));
      assertEquals(List.of(region, "0", current), other.got);
      assertSame(other.rebalanced, strategy.rebalance(current, moving));
      assertSame(current, other.got.get(0));
      assertSame(moving, other.got.get(1));
    }
  }

  /** The coordinator starts on another member, which never reached the server. */
  @Test
  void keepsWhatAFormerCoordinatorPlaced() {
    for (Answer answer : List.of(new Answer.Failed("", Duration.ZERO), new Answer.Refused("", Duration.ZERO))) {
      Noting other = new Noting();
      ShardAllocationStrategy strategy = strategy(Known.NOTHING.after(answer, 0), other);
      assertSame(other.allocated, strategy.allocateShard(region, "0", current("1")));
      assertEquals(set(), strategy.rebalance(current("1"), set()).value().get().get());
    }
  }

  @Test
  void startsTheOtherOne() {
    Noting other = new Noting();
    ((StartableAllocationStrategy) strategy(Known.NOTHING, other)).start();
    assertTrue(other.started);
  }

  @Test
  void pekkosDefaultIsUsableWithoutAPlan() throws Exception {
    // It fails if nobody gives it the actor system.
    ShardAllocationStrategy fallback =
        org.apache.pekko.cluster.sharding.ClusterSharding.get(system)
            .defaultShardAllocationStrategy(org.apache.pekko.cluster.sharding.ClusterShardingSettings.create(system));
    ShardAllocationStrategy strategy = strategy(Known.NOTHING, fallback);
    ((StartableAllocationStrategy) strategy).start();
    assertSame(region, strategy.allocateShard(region, "0", current("1")).value().get().get());
    assertEquals(set(), strategy.rebalance(current("1"), set()).value().get().get());
  }

  @Test
  void isPekkosDefaultIfItIsOff() {
    // The configuration of this system turns it off.
    ShardAllocationStrategy strategy = KnativePlacement.get(system).strategy("Cart");
    assertEquals("LeastShardAllocationStrategy", strategy.getClass().getSimpleName());
    assertTrue(KnativePlacement.get(system).version().isEmpty() && KnativePlacement.get(system).age().isEmpty());
    assertThrows(IllegalArgumentException.class, () -> KnativePlacement.get(system).strategy(" "));
  }

  private static ShardAllocationStrategy strategy(Known known, ShardAllocationStrategy other) {
    return new PlannedStrategy(system, "Cart", () -> known, STALE, other);
  }

  private static Known known(String mode, String type, String member, List<Integer> owners) {
    Map<String, Object> fields = Plans.fields(7);
    fields.put("mode", mode);
    fields.put("members", List.of(Plans.member(member, "cart-00001")));
    fields.put("entityTypes", List.of(Plans.entityType(type, owners.size(), List.of(owners.size()), owners)));
    return Known.NOTHING.after(new Answer.Found(Plans.plan(fields)), System.nanoTime());
  }

  private static scala.collection.immutable.Map<ActorRef, IndexedSeq<String>> current(String shard) {
    return current(Map.of(region, List.of(shard)));
  }

  private static scala.collection.immutable.Map<ActorRef, IndexedSeq<String>> current(Map<ActorRef, List<String>> shards) {
    Map<ActorRef, IndexedSeq<String>> current = new HashMap<>();
    shards.forEach((region, its) -> current.put(region, CollectionConverters.asScala(its).toIndexedSeq()));
    return Map$.MODULE$.from(CollectionConverters.asScala(current));
  }

  private static Set<String> set(String... shards) {
    return CollectionConverters.asScala(java.util.Set.of(shards)).toSet();
  }
}
