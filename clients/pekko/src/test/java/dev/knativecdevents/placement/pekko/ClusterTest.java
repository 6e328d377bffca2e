// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.typesafe.config.Config;
import com.typesafe.config.ConfigFactory;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;
import org.apache.pekko.actor.typed.ActorRef;
import org.apache.pekko.actor.typed.ActorSystem;
import org.apache.pekko.actor.typed.Behavior;
import org.apache.pekko.actor.typed.javadsl.AskPattern;
import org.apache.pekko.actor.typed.javadsl.Behaviors;
import org.apache.pekko.cluster.MemberStatus;
import org.apache.pekko.cluster.sharding.ShardCoordinator.ShardAllocationStrategy;
import org.apache.pekko.cluster.sharding.ShardRegion;
import org.apache.pekko.cluster.sharding.typed.GetShardRegionState;
import org.apache.pekko.cluster.sharding.typed.HashCodeMessageExtractor;
import org.apache.pekko.cluster.sharding.typed.javadsl.ClusterSharding;
import org.apache.pekko.cluster.sharding.typed.javadsl.Entity;
import org.apache.pekko.cluster.sharding.typed.javadsl.EntityTypeKey;
import org.apache.pekko.cluster.typed.Cluster;
import org.apache.pekko.cluster.typed.Join;
import org.apache.pekko.cluster.typed.Leave;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * A real cluster of three members in one JVM, and a fake server of plans. Members 0 and 1 are of the old Revision, member 2 is the
 * canary.
 */
class ClusterTest {
  private static final int SHARDS = 100;
  private static final int CANARY = 2;
  private static final Duration PATIENCE = Duration.ofSeconds(5);
  private static final Duration LONG = Duration.ofSeconds(180);
  private static final EntityTypeKey<Ask> CART = EntityTypeKey.create(Ask.class, "Cart");

  /** Nobody asks for its entities until the server has gone. */
  private static final EntityTypeKey<Ask> LATE = EntityTypeKey.create(Ask.class, "Late");

  interface Wire {}

  /** Asks an entity for the address of its member. */
  record Ask(String entity, ActorRef<Told> replyTo) implements Wire {
    @JsonCreator
    Ask {}
  }

  record Told(String entity, String address) implements Wire {
    @JsonCreator
    Told {}
  }

  @TempDir Path dir;
  private FakeServer server;
  private final HashCodeMessageExtractor<Ask> extractor = new HashCodeMessageExtractor<>(SHARDS);
  private final List<ActorSystem<Void>> systems = new ArrayList<>();
  private final Map<Integer, String> entities = new HashMap<>();
  private final Map<String, Object> plan = Plans.fields(1_795_400_000_000L);
  private List<Integer> owners = new ArrayList<>(Collections.nCopies(SHARDS, 0));

  /** What the coordinator's strategy wanted to move, and more than it should have. */
  private final AtomicInteger moves = new AtomicInteger();

  private final ConcurrentLinkedQueue<String> excesses = new ConcurrentLinkedQueue<>();

  @AfterEach
  void stop() {
    systems.forEach(ActorSystem::terminate);
    systems.forEach(s -> s.getWhenTerminated().toCompletableFuture().join());
    if (server != null) {
      server.close();
    }
  }

  @Test
  @Timeout(600)
  void shardsFollowThePlan() throws Exception {
    Path token = Files.writeString(dir.resolve("token"), "token-1");
    server = new FakeServer();
    for (int n = 0; entities.size() < SHARDS; n++) {
      entities.putIfAbsent(Integer.parseInt(extractor.shardId("cart-" + n)), "cart-" + n);
    }
    for (int member = 0; member < 3; member++) {
      systems.add(ActorSystem.create(Behaviors.<Void>empty(), "cart", config(token)));
    }
    split(0);
    publish();
    systems.forEach(this::initialize);
    await("all members have the plan", () -> systems.stream().allMatch(s -> KnativePlacement.get(s).version().isPresent()));
    for (ActorSystem<Void> system : systems) {
      Cluster.get(system).manager().tell(Join.create(Cluster.get(systems.get(0)).selfMember().address()));
      await("the member is up", () -> Cluster.get(system).selfMember().status() == MemberStatus.up());
    }
    awaitRegions();

    // Every shard is allocated as planned in the first place.
    assertOwners(CART);
    assertEquals(0, moves.get());
    for (int percent : new int[] {5, 20, 50, 100, 0}) {
      if (percent == 20) {
        // kubelet renews the token; the old one is not valid any more.
        server.accept("token-2");
        Files.writeString(token, "token-2");
      }
      step(percent);
    }

    awayInTheMiddle();
    split(20);
    publish();
    await("the plan is reached", this::converged);
    theOldestLeaves();
    assertEquals(List.of(), List.copyOf(excesses));
  }

  /** Another split: as many shards move as have to. */
  private void step(int percent) throws Exception {
    Map<Integer, Integer> before = count();
    moves.set(0);
    split(percent);
    publish();
    await(percent + " % is reached", this::converged);
    Map<Integer, Integer> after = count();
    int fewest = IntStream.range(0, 3).map(m -> Math.abs(after.get(m) - before.get(m))).sum() / 2;
    assertEquals(percent, after.get(CANARY));
    // Two more ticks, in which nothing may move.
    Thread.sleep(1_100);
    assertEquals(fewest, moves.get());
    assertOwners(CART);
    System.out.printf("%d %%: %s, %d moves%n", percent, after, fewest);
  }

  /** The server goes away while shards move to the canary. */
  private void awayInTheMiddle() throws Exception {
    moves.set(0);
    split(100);
    plan.put("atOnce", 4);
    publish();
    await("the first shards move", () -> moves.get() > 0);
    server.close();
    await("the plan is stale", () -> KnativePlacement.get(systems.get(0)).age().orElseThrow().compareTo(Duration.ofSeconds(2)) > 0);
    Thread.sleep(1_100);
    int moved = moves.get();
    Map<Integer, Integer> before = new TreeMap<>();
    await(
        "the last ones are handed over",
        () -> {
          before.clear();
          before.putAll(owned());
          return before.size() == SHARDS && !before.containsValue(-1);
        });
    assertNotEquals(planned(), before, "the test needs a plan that is not reached");
    Thread.sleep(3_000);
    assertEquals(moved, moves.get(), "nothing may move by a stale plan");
    await("all have stayed", () -> owned().equals(before));
    System.out.printf("server away: %d of 100 had moved%n", moved);

    // New shards follow it all the same.
    assertOwners(LATE);

    server = new FakeServer(server.port(), null);
    server.accept("token-2");
    server.publish(plan);
    await("the plan is reached", this::converged);
    assertEquals(100, moves.get());
    plan.put("atOnce", 10);
  }

  /** The coordinator goes to another member. What the oldest had goes to the other member of its Revision. */
  private void theOldestLeaves() throws Exception {
    moves.set(0);
    ActorSystem<Void> oldest = systems.get(0);
    Cluster.get(oldest).manager().tell(Leave.create(Cluster.get(oldest).selfMember().address()));
    owners = new ArrayList<>(owners.stream().map(o -> o == 0 ? 1 : o).toList());
    await("the oldest has left", () -> Cluster.get(oldest).isTerminated());
    // What it handed over last may have no owner until somebody asks for it.
    assertOwners(CART);
    await("the plan is reached", this::converged);
    assertEquals(20, count().get(CANARY));
    Thread.sleep(1_100);
    // These have to move, but not by choice.
    assertEquals(0, moves.get());
    System.out.printf("the oldest left: %s%n", count());
    step(50);
  }

  private void initialize(ActorSystem<Void> system) {
    String address = Cluster.get(system).selfMember().address().toString();
    for (EntityTypeKey<Ask> key : List.of(CART, LATE)) {
      ShardAllocationStrategy strategy = KnativePlacement.get(system).strategy(key.name());
      ClusterSharding.get(system)
          .init(
              Entity.of(key, context -> cart(address))
                  .withAllocationStrategy(key == CART ? new CountedStrategy(strategy, moves, excesses) : strategy)
                  .withMessageExtractor(extractor));
    }
  }

  private static Behavior<Ask> cart(String address) {
    return Behaviors.receiveMessage(
        ask -> {
          ask.replyTo().tell(new Told(ask.entity(), address));
          return Behaviors.same();
        });
  }

  /** Gives the canary so many shards, and the others as few changes as possible. */
  private void split(int percent) {
    List<Integer> stable = Cluster.get(systems.get(0)).isTerminated() ? List.of(1) : List.of(0, 1);
    int[] surplus = new int[3];
    owners.forEach(o -> surplus[o]++);
    surplus[CANARY] -= percent;
    for (int n = 0; n < stable.size(); n++) {
      surplus[stable.get(n)] -= (SHARDS - percent + n) / stable.size();
    }
    // Not the first ones, so that nothing goes right by chance.
    for (int i = 0; i < SHARDS; i++) {
      int shard = (i * 37) % SHARDS;
      int from = owners.get(shard);
      for (int to = 0; to < 3 && surplus[from] > 0; to++) {
        if (surplus[to] < 0) {
          surplus[from]--;
          surplus[to]++;
          owners.set(shard, to);
          break;
        }
      }
    }
  }

  private void publish() {
    List<Integer> quotas = IntStream.range(0, 3).map(m -> Collections.frequency(owners, m)).boxed().toList();
    plan.put("version", (long) plan.get("version") + 1000);
    plan.put("members", IntStream.range(0, 3).mapToObj(m -> Plans.member(address(m), m == CANARY ? "cart-00002" : "cart-00001")).toList());
    plan.put(
        "entityTypes",
        List.of(Plans.entityType("Cart", SHARDS, quotas, List.copyOf(owners)), Plans.entityType("Late", SHARDS, quotas, late())));
    server.publish(plan);
  }

  /** A plan of its own. */
  private static List<Integer> late() {
    return IntStream.range(0, SHARDS).mapToObj(s -> (s * 7) % 3).toList();
  }

  private String address(int member) {
    return Cluster.get(systems.get(member)).selfMember().address().toString();
  }

  private Map<Integer, Integer> planned() {
    Map<Integer, Integer> planned = new TreeMap<>();
    IntStream.range(0, SHARDS).forEach(s -> planned.put(s, owners.get(s)));
    return planned;
  }

  private boolean converged() {
    return planned().equals(owned());
  }

  /** The members that own shards, as their regions say. Shards that are being handed over may be missing. */
  private Map<Integer, Integer> owned() {
    Map<Integer, Integer> owned = new TreeMap<>();
    for (int m = 0; m < systems.size(); m++) {
      int member = m;
      ActorSystem<Void> system = systems.get(m);
      if (Cluster.get(system).isTerminated()) {
        continue;
      }
      CompletionStage<ShardRegion.CurrentShardRegionState> state =
          AskPattern.ask(
              ClusterSharding.get(system).shardState(), to -> new GetShardRegionState(CART, to), PATIENCE, system.scheduler());
      // A shard that moves between two answers is in both.
      state.toCompletableFuture().join().getShards().forEach(s -> owned.merge(Integer.parseInt(s.shardId()), member, (a, b) -> -1));
    }
    return owned;
  }

  /** How many shards each member has by the plan. */
  private Map<Integer, Integer> count() {
    Map<Integer, Integer> count = new TreeMap<>(Map.of(0, 0, 1, 0, 2, 0));
    owners.forEach(m -> count.merge(m, 1, Integer::sum));
    return count;
  }

  /** Sends a request to each shard, from any member: who answers is who must own it. */
  private void assertOwners(EntityTypeKey<Ask> key) throws Exception {
    Map<Integer, String> answered = new TreeMap<>();
    Map<Integer, String> planned = new TreeMap<>();
    for (int shard = 0; shard < SHARDS; shard++) {
      planned.put(shard, address(key == CART ? owners.get(shard) : late().get(shard)));
      ActorSystem<Void> system = systems.get(Cluster.get(systems.get(0)).isTerminated() ? 1 : shard % 3);
      answered.put(shard, ask(system, key, entities.get(shard)));
    }
    assertEquals(planned, answered);
  }

  private static String ask(ActorSystem<Void> system, EntityTypeKey<Ask> key, String entity) throws Exception {
    for (int attempt = 1; ; attempt++) {
      try {
        return ClusterSharding.get(system)
            .entityRefFor(key, entity)
            .<Told>ask(to -> new Ask(entity, to), PATIENCE)
            .toCompletableFuture()
            .get()
            .address();
      } catch (java.util.concurrent.ExecutionException e) {
        // Pekko gives at most one delivery.
        if (attempt == 5) {
          throw e;
        }
      }
    }
  }

  /** Waits until all members have a region, or the first shards go to those that do. */
  private void awaitRegions() {
    for (EntityTypeKey<Ask> key : List.of(CART, LATE)) {
      await(
          "all regions are registered",
          () -> {
            CompletionStage<ShardRegion.ClusterShardingStats> stats =
                AskPattern.ask(
                    ClusterSharding.get(systems.get(0)).shardState(),
                    to -> new org.apache.pekko.cluster.sharding.typed.GetClusterShardingStats(key, PATIENCE, to),
                    PATIENCE,
                    systems.get(0).scheduler());
            return stats.toCompletableFuture().join().getRegions().size() == 3;
          });
    }
  }

  private void await(String what, BooleanSupplier condition) {
    long until = System.nanoTime() + LONG.toNanos();
    while (!condition.getAsBoolean()) {
      assertTrue(System.nanoTime() < until, () -> "not within " + LONG.toSeconds() + "s: " + what + ". " + state());
      try {
        Thread.sleep(50);
      } catch (InterruptedException e) {
        throw new IllegalStateException(e);
      }
    }
  }

  /** For the message of a test that fails. */
  private String state() {
    Map<Integer, Integer> missing = new TreeMap<>(planned());
    missing.entrySet().removeAll(owned().entrySet());
    List<String> members = systems.stream().map(s -> KnativePlacement.get(s).age() + " " + Cluster.get(s).state()).toList();
    return "Not as planned: %s of %s, after %d moves. Plans' ages, and members: %s".formatted(missing, owned(), moves.get(), members);
  }

  private Config config(Path token) throws IOException {
    String text =
        """
        %s {
          enabled = on, url = "http://127.0.0.1:%d", namespace = shop, service = cart, token-file = "%s"
          wait = 1s, stale-after = 2s, backoff { min = 50ms, max = 300ms }
        }
        """
            .formatted(Settings.PATH, server.port(), token);
    return ConfigFactory.parseString(text).withFallback(ConfigFactory.load("cluster"));
  }
}
