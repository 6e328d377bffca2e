// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * What the coordinator of one entity type sees.
 *
 * @param shards are the shards of each region, by the address of its member
 * @param moving are the shards that are being handed over; until they are, their old region has them
 * @param members are all members of the cluster, with or without a region
 */
record View(Map<String, List<String>> shards, Set<String> moving, Map<String, Phase> members) {
  /** How far a member is in the cluster. */
  enum Phase {
    /** Joining or WeaklyUp. */
    JOINING,
    UP,
    /** Leaving, Exiting or Down. */
    LEAVING,
    /** Whatever its status is. */
    UNREACHABLE
  }

  View {
    // The coordinator's map has no order, and decisions must not depend on one.
    shards = new TreeMap<>(shards);
  }

  /** Whether the member has a region that can own shards. */
  boolean canOwn(String address) {
    return shards.containsKey(address) && members.get(address) == Phase.UP;
  }
}
