// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import dev.knativecdevents.placement.pekko.View.Phase;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import org.apache.pekko.actor.ActorRef;
import org.apache.pekko.actor.ActorSystem;
import org.apache.pekko.actor.Address;
import org.apache.pekko.cluster.Cluster;
import org.apache.pekko.cluster.ClusterEvent.CurrentClusterState;
import org.apache.pekko.cluster.Member;
import org.apache.pekko.cluster.MemberStatus;
import org.apache.pekko.cluster.sharding.ShardCoordinator;
import org.apache.pekko.dispatch.Futures;
import org.apache.pekko.event.Logging;
import org.apache.pekko.event.LoggingAdapter;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Set;
import scala.concurrent.Future;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Follows the plan, and does as another strategy where there is none to follow.
 *
 * <p>All futures are complete when they are returned, so that the coordinator never asks again before it has an answer. The types
 * are Scala's, because the other strategy must get exactly what the coordinator passes.
 */
final class PlannedStrategy implements ShardCoordinator.StartableAllocationStrategy {
  private final ActorSystem system;
  private final String entityType;
  private final Supplier<Known> known;
  private final Duration staleAfter;
  private final ShardCoordinator.ShardAllocationStrategy otherwise;
  private final Cluster cluster;
  private final LoggingAdapter log;
  private String obstacle = "";

  PlannedStrategy(
      ActorSystem system,
      String entityType,
      Supplier<Known> known,
      Duration staleAfter,
      ShardCoordinator.ShardAllocationStrategy otherwise) {
    this.system = system;
    this.entityType = entityType;
    this.known = known;
    this.staleAfter = staleAfter;
    this.otherwise = otherwise;
    cluster = Cluster.get(system);
    log = Logging.getLogger(system, PlannedStrategy.class);
  }

  /** The coordinator does this for the strategy that it has, and knows only this one. */
  @Override
  public void start() {
    if (otherwise instanceof ShardCoordinator.ActorSystemDependentAllocationStrategy strategy) {
      strategy.start(system);
    } else if (otherwise instanceof ShardCoordinator.StartableAllocationStrategy strategy) {
      strategy.start();
    }
  }

  @Override
  public Future<ActorRef> allocateShard(
      ActorRef requester, String shard, scala.collection.immutable.Map<ActorRef, IndexedSeq<String>> current) {
    Regions regions = new Regions(current);
    Optional<Decision> decision = decision(known.get(), regions, java.util.Set.of());
    if (decision.isEmpty()) {
      return otherwise.allocateShard(requester, shard, current);
    }
    return Futures.successful(regions.refs.get(decision.get().allocate(shard)));
  }

  @Override
  public Future<Set<String>> rebalance(
      scala.collection.immutable.Map<ActorRef, IndexedSeq<String>> current, Set<String> inProgress) {
    Known now = known.get();
    Optional<Decision> decision = decision(now, new Regions(current), CollectionConverters.asJava(inProgress));
    if (!now.settled()) {
      // A former coordinator may have followed a plan. An even placement would undo what it did.
      say("the server has not given a plan yet");
      return Futures.successful(CollectionConverters.asScala(java.util.Set.<String>of()).toSet());
    }
    if (decision.isEmpty()) {
      say("");
      return otherwise.rebalance(current, inProgress);
    }
    boolean fresh = now.fresh(System.nanoTime(), staleAfter);
    say(decision.get().obstacle(fresh).orElse(""));
    return Futures.successful(CollectionConverters.asScala(decision.get().moves(fresh)).toSet());
  }

  private Optional<Decision> decision(Known now, Regions regions, java.util.Set<String> moving) {
    return now.toFollow()
        .flatMap(
            plan ->
                plan.entityType(entityType)
                    .map(type -> new Decision(plan, type, new View(regions.shards, moving, phases(cluster.state())))));
  }

  private static Map<String, Phase> phases(CurrentClusterState state) {
    Map<String, Phase> phases = new HashMap<>();
    for (Member member : state.getMembers()) {
      phases.put(member.address().toString(), phase(member.status()));
    }
    for (Member member : state.getUnreachable()) {
      phases.put(member.address().toString(), Phase.UNREACHABLE);
    }
    return phases;
  }

  private static Phase phase(MemberStatus status) {
    if (status.equals(MemberStatus.joining()) || status.equals(MemberStatus.weaklyUp())) {
      return Phase.JOINING;
    }
    if (status.equals(MemberStatus.leaving()) || status.equals(MemberStatus.exiting()) || status.equals(MemberStatus.down())) {
      return Phase.LEAVING;
    }
    return Phase.UP;
  }

  private void say(String now) {
    if (!now.equals(obstacle)) {
      obstacle = now;
      log.info("placement: shards of {} {}", entityType, now.isEmpty() ? "may move" : "do not move: " + now);
    }
  }

  /** The regions of the coordinator's map, by address. */
  private final class Regions {
    final Map<String, ActorRef> refs = new HashMap<>();
    final Map<String, List<String>> shards = new HashMap<>();

    Regions(scala.collection.immutable.Map<ActorRef, IndexedSeq<String>> current) {
      for (Map.Entry<ActorRef, IndexedSeq<String>> region : CollectionConverters.asJava(current).entrySet()) {
        // The coordinator's own region has no host in its path.
        Address path = region.getKey().path().address();
        String address = (path.hasLocalScope() ? cluster.selfAddress() : path).toString();
        refs.put(address, region.getKey());
        shards.computeIfAbsent(address, a -> new ArrayList<>()).addAll(CollectionConverters.asJava(region.getValue()));
      }
    }
  }
}
