// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.pekko.actor.ActorRef;
import org.apache.pekko.cluster.sharding.ShardCoordinator.ShardAllocationStrategy;
import org.apache.pekko.cluster.sharding.ShardCoordinator.StartableAllocationStrategy;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Set;
import scala.concurrent.Future;

/** Counts the moves of another strategy. */
record CountedStrategy(ShardAllocationStrategy other, AtomicInteger moves, ConcurrentLinkedQueue<String> excesses)
    implements StartableAllocationStrategy {
  @Override
  public void start() {
    ((StartableAllocationStrategy) other).start();
  }

  @Override
  public Future<ActorRef> allocateShard(
      ActorRef requester,
      String shard,
      scala.collection.immutable.Map<ActorRef, IndexedSeq<String>> current) {
    return other.allocateShard(requester, shard, current);
  }

  @Override
  public Future<Set<String>> rebalance(
      scala.collection.immutable.Map<ActorRef, IndexedSeq<String>> current, Set<String> moving) {
    Future<Set<String>> answer = other.rebalance(current, moving);
    Set<String> named = answer.value().get().get();
    moves.addAndGet(named.size());
    // A member that leaves hands all of its shards over at a time.
    if (named.nonEmpty() && named.size() + moving.size() > 10) {
      excesses.add(named + " while these are moving: " + moving);
    }
    return answer;
  }
}
