// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.typesafe.config.Config;
import com.typesafe.config.ConfigFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.apache.pekko.actor.typed.ActorSystem;
import org.apache.pekko.actor.typed.Behavior;
import org.apache.pekko.actor.typed.javadsl.Behaviors;
import org.apache.pekko.cluster.MemberStatus;
import org.apache.pekko.cluster.sharding.typed.HashCodeMessageExtractor;
import org.apache.pekko.cluster.sharding.typed.javadsl.ClusterSharding;
import org.apache.pekko.cluster.sharding.typed.javadsl.EntityTypeKey;
import org.apache.pekko.cluster.typed.Cluster;
import org.apache.pekko.cluster.typed.Join;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Three members in one JVM ask entities while shards move: each request is answered once, and handled once. */
class AskClusterTest {
  private static final int SHARDS = 20;
  private static final int CARTS = 100;

  /** More moves, until a first attempt has failed. */
  private static final int FEWEST_ROUNDS = 4;

  private static final int MOST_ROUNDS = 30;
  private static final Duration LONG = Duration.ofSeconds(400);
  private static final EntityTypeKey<Add> CART = EntityTypeKey.create(Add.class, "Cart");

  interface Wire {}

  record Add(String item, EntityRequest<Added> request) implements Wire {
    @JsonCreator
    Add {}
  }

  record Added(String item, String address) implements Wire {
    @JsonCreator
    Added {}
  }

  /** How often each request was handled, by its item. Outside of the entities, which forget. */
  private static final Map<String, AtomicInteger> HANDLED = new ConcurrentHashMap<>();

  @TempDir Path dir;
  private final List<ActorSystem<Void>> systems = new ArrayList<>();
  private final Map<String, Object> plan = Plans.fields(1_795_400_000_000L);
  private FakeServer server;

  private final AtomicBoolean stopping = new AtomicBoolean();
  private final AtomicInteger sent = new AtomicInteger();
  private final AtomicInteger answered = new AtomicInteger();
  private final Set<String> failures = ConcurrentHashMap.newKeySet();

  @AfterEach
  void stop() {
    stopping.set(true);
    systems.forEach(ActorSystem::terminate);
    systems.forEach(s -> s.getWhenTerminated().toCompletableFuture().join());
    server.close();
  }

  @Test
  @Timeout(1800)
  void losesNothingWhileShardsMove() throws Exception {
    server = new FakeServer();
    Config config = config(Files.writeString(dir.resolve("token"), "token-1"));
    for (int member = 0; member < 3; member++) {
      systems.add(ActorSystem.create(Behaviors.<Void>empty(), "cart", config));
    }
    publish(0);
    systems.forEach(AskClusterTest::initialize);
    await("all members have the plan", () -> systems.stream().allMatch(s -> KnativePlacement.get(s).version().isPresent()));
    for (ActorSystem<Void> system : systems) {
      Cluster.get(system).manager().tell(Join.create(Cluster.get(systems.get(0)).selfMember().address()));
      await("the member is up", () -> Cluster.get(system).selfMember().status() == MemberStatus.up());
    }
    List<Thread> load = systems.stream().map(s -> new Thread(() -> load(s))).toList();
    load.forEach(Thread::start);
    await("the shards are as planned", () -> converged(0));
    // Until the first shards are allocated, answers may take long.
    int before = total("answered_after_retry");
    int rounds = 0;
    while (rounds < FEWEST_ROUNDS || (total("answered_after_retry") == before && rounds < MOST_ROUNDS)) {
      rounds++;
      publish(rounds);
      int round = rounds;
      await("the shards have moved", () -> converged(round));
    }
    stopping.set(true);
    for (Thread thread : load) {
      thread.join();
    }
    int failed = total("answered_after_retry") - before;
    System.out.printf("%d requests, %d moves: %d first attempts failed, all were answered after a retry%n", sent.get(), rounds * SHARDS, failed);
    assertEquals(Set.of(), failures);
    assertEquals(sent.get(), answered.get());
    assertEquals(sent.get(), HANDLED.size());
    assertEquals(List.of(), HANDLED.keySet().stream().filter(item -> HANDLED.get(item).get() != 1).toList(), "handled twice");
    assertEquals(sent.get(), total("stateful_requests_total"), "what is counted must be what was handled");
    assertTrue(failed > 0, "no first attempt failed, so this test has shown nothing");
    assertTrue(text(0).contains("\nstateful_placement_plan_age_seconds "), () -> text(0));
  }

  /** Sends requests from a member until the test ends, and waits for their answers. */
  private void load(ActorSystem<Void> system) {
    int most = 50;
    Semaphore open = new Semaphore(most);
    ClusterSharding sharding = ClusterSharding.get(system);
    while (!stopping.get()) {
      open.acquireUninterruptibly();
      String item = "item-" + sent.incrementAndGet();
      KnativeAsk.get(system)
          .<Add, Added>ask(sharding.entityRefFor(CART, "cart-" + item.hashCode() % CARTS), request -> new Add(item, request))
          .whenComplete(
              (added, error) -> {
                if (error != null || !added.item().equals(item)) {
                  failures.add(item + ": " + added + ", " + error);
                }
                answered.incrementAndGet();
                open.release();
              });
      pause(5);
    }
    open.acquireUninterruptibly(most);
  }

  private static void initialize(ActorSystem<Void> system) {
    String address = Cluster.get(system).selfMember().address().toString();
    ClusterSharding.get(system)
        .init(
            KnativeAsk.get(system)
                .entity(CART, (entity, requests) -> cart(requests, address))
                .withAllocationStrategy(KnativePlacement.get(system).strategy(CART.name()))
                .withMessageExtractor(new HashCodeMessageExtractor<>(SHARDS)));
  }

  private static Behavior<Add> cart(RecentRequests requests, String address) {
    return Behaviors.receiveMessage(
        add -> {
          requests.handle(
              add.request(),
              () -> {
                HANDLED.computeIfAbsent(add.item(), i -> new AtomicInteger()).incrementAndGet();
                return new Added(add.item(), address);
              });
          return Behaviors.same();
        });
  }

  /** All shards move to the next member. */
  private void publish(int round) {
    List<Integer> owners = IntStream.range(0, SHARDS).map(s -> (s + round) % 3).boxed().toList();
    List<Integer> quotas = IntStream.range(0, 3).map(m -> Collections.frequency(owners, m)).boxed().toList();
    plan.put("version", 1_795_400_000_000L + round);
    plan.put("members", systems.stream().map(s -> Plans.member(Cluster.get(s).selfMember().address().toString(), "cart-00001")).toList());
    plan.put("entityTypes", List.of(Plans.entityType("Cart", SHARDS, quotas, owners)));
    server.publish(plan);
  }

  /** As the members' own metrics say, which the controller reads. */
  private boolean converged(int round) {
    return IntStream.range(0, 3)
        .allMatch(
            m -> {
              long planned = IntStream.range(0, SHARDS).filter(s -> (s + round) % 3 == m).count();
              return text(m).contains("\nstateful_shards{entity_type=\"Cart\"} " + planned + ".0\n");
            });
  }

  private String text(int member) {
    return KnativeMetrics.get(systems.get(member)).text();
  }

  /** The sum over all members of the samples whose names or labels contain a text. */
  private int total(String what) {
    Pattern sample = Pattern.compile("^[a-z_]*(?:\\{.*\\})? ([0-9.E]+)$", Pattern.MULTILINE);
    double total = 0;
    for (int member = 0; member < systems.size(); member++) {
      Matcher samples = sample.matcher(text(member));
      while (samples.find()) {
        total += samples.group().contains(what) ? Double.parseDouble(samples.group(1)) : 0;
      }
    }
    return (int) total;
  }

  private static void await(String what, BooleanSupplier condition) {
    long until = System.nanoTime() + LONG.toNanos();
    while (!condition.getAsBoolean()) {
      assertTrue(System.nanoTime() < until, () -> "not within " + LONG.toSeconds() + "s: " + what);
      pause(50);
    }
  }

  private static void pause(long millis) {
    try {
      Thread.sleep(millis);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  private Config config(Path token) {
    String text =
        """
        %s {
          enabled = on, url = "http://127.0.0.1:%d", namespace = shop, service = cart, token-file = "%s"
          wait = 1s, stale-after = 90s, backoff { min = 50ms, max = 300ms }
        }
        # On a busy machine, members stall for seconds: whoever asks again while an answer is under way is handled twice after a move.
        %s { attempt = 20s, timeout = 100s }
        pekko.actor.serialization-bindings { "dev.knativecdevents.placement.pekko.AskClusterTest$Wire" = jackson-cbor }
        pekko.cluster.sharding.rebalance-interval = 200ms
        """
            .formatted(Settings.PATH, server.port(), token, AskSettings.PATH);
    return ConfigFactory.parseString(text).withFallback(ConfigFactory.load("cluster"));
  }
}
