// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import dev.knativecdevents.placement.pekko.View.Phase;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Predicate;

/** Where a shard goes, and which shards move, by one plan for one entity type. */
final class Decision {
  private final Plan plan;
  private final Plan.EntityType type;
  private final View view;
  private final Map<String, Integer> quotas = new HashMap<>();

  Decision(Plan plan, Plan.EntityType type, View view) {
    this.plan = plan;
    this.type = type;
    this.view = view;
    for (int i = 0; i < plan.members().size(); i++) {
      quotas.put(plan.members().get(i).address(), type.quotas().get(i));
    }
  }

  /** The member that gets a shard which nobody owns. There must be at least one region. */
  String allocate(String shard) {
    Optional<Plan.Member> owner = plan.owner(type, shard);
    if (owner.isPresent() && view.canOwn(owner.get().address())) {
      return owner.get().address();
    }
    // A member of the owner's Revision keeps the Revisions' shares as they are.
    List<String> siblings = owner.map(o -> regions(a -> view.canOwn(a) && revision(a).equals(o.revision()))).orElse(List.of());
    for (List<String> candidates : List.of(siblings, regions(view::canOwn))) {
      if (!candidates.isEmpty()) {
        return furthestBelow(candidates);
      }
    }
    return furthestBelow(List.copyOf(view.shards().keySet()));
  }

  /** Why no shard may be moved by choice. Empty: they may. */
  Optional<String> obstacle(boolean fresh) {
    if (!fresh) {
      return Optional.of("the server has not confirmed the plan lately");
    }
    if (!plan.held().isEmpty()) {
      return Optional.of("the plan says " + plan.held());
    }
    for (Phase phase : List.of(Phase.UNREACHABLE, Phase.JOINING)) {
      Optional<String> member =
          view.members().keySet().stream().filter(m -> view.members().get(m) == phase).min(Comparator.naturalOrder());
      if (member.isPresent()) {
        return Optional.of(member.get() + " is " + phase.name().toLowerCase(Locale.ROOT));
      }
    }
    return Optional.empty();
  }

  /** The shards to move now. */
  Set<String> moves(boolean fresh) {
    int limit = Math.max(1, Math.min(plan.atOnce(), type.shards() / 10)) - view.moving().size();
    if (limit <= 0 || obstacle(fresh).isPresent()) {
      return Set.of();
    }
    List<String> moves = type.owners() == null ? surplus() : misplaced();
    return new LinkedHashSet<>(moves.subList(0, Math.min(limit, moves.size())));
  }

  /** The shards whose planned owner can have them and does not, by number. */
  private List<String> misplaced() {
    List<String> moves = new ArrayList<>();
    // A member that leaves hands its shards over by itself.
    for (String region : regions(view::canOwn)) {
      for (String shard : view.shards().get(region)) {
        Optional<String> owner = plan.owner(type, shard).map(Plan.Member::address);
        if (!view.moving().contains(shard) && owner.isPresent() && !owner.get().equals(region) && view.canOwn(owner.get())) {
          moves.add(shard);
        }
      }
    }
    moves.sort(Comparator.comparingInt(Plan::number));
    return moves;
  }

  /** The shards that members have above their quotas, where it does not matter which shard is whose. */
  private List<String> surplus() {
    Map<String, List<String>> staying = new HashMap<>();
    int all = view.moving().size();
    List<String> able = regions(view::canOwn);
    for (String region : able) {
      List<String> stays = view.shards().get(region).stream().filter(s -> !view.moving().contains(s)).sorted().toList();
      staying.put(region, stays);
      all += stays.size();
    }
    Map<String, Integer> targets = targets(able, staying, all);
    List<String> moves = new ArrayList<>();
    for (String region : able) {
      List<String> stays = staying.get(region);
      moves.addAll(stays.subList(0, Math.max(0, stays.size() - targets.getOrDefault(region, stays.size()))));
    }
    return moves;
  }

  /** Divides the shards that there are as the quotas say, by largest remainder. Empty if all quotas are 0. */
  private Map<String, Integer> targets(List<String> regions, Map<String, List<String>> staying, int shards) {
    long total = regions.stream().mapToLong(this::quota).sum();
    Map<String, Integer> targets = new HashMap<>();
    if (total == 0) {
      return targets;
    }
    int left = shards;
    for (String region : regions) {
      int floor = (int) (quota(region) * (long) shards / total);
      targets.put(region, floor);
      left -= floor;
    }
    // Where remainders are equal, who has more than its whole part keeps it.
    regions.stream()
        .sorted(
            Comparator.comparingLong((String r) -> -(quota(r) * (long) shards % total))
                .thenComparing(r -> targets.get(r) - staying.get(r).size())
                .thenComparing(Comparator.naturalOrder()))
        .limit(left)
        .toList()
        .forEach(region -> targets.merge(region, 1, Integer::sum));
    return targets;
  }

  /**
   * The member that misses most of its quota, if the quotas are scaled to the number of shards that these members have: not all
   * shards have to be allocated.
   */
  private String furthestBelow(List<String> regions) {
    long quotas = regions.stream().mapToLong(this::quota).sum();
    long shards = 1 + regions.stream().mapToLong(this::owned).sum();
    return regions.stream()
        .min(
            Comparator.comparingLong((String r) -> quotas == 0 ? owned(r) : owned(r) * quotas - quota(r) * shards)
                .thenComparing(Comparator.naturalOrder()))
        .orElseThrow();
  }

  private List<String> regions(Predicate<String> which) {
    return view.shards().keySet().stream().filter(which).toList();
  }

  private long owned(String region) {
    return view.shards().get(region).size();
  }

  private int quota(String region) {
    return quotas.getOrDefault(region, 0);
  }

  private String revision(String region) {
    return plan.members().stream().filter(m -> m.address().equals(region)).map(Plan.Member::revision).findFirst().orElse("");
  }
}
