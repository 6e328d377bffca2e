// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.knativecdevents.placement.pekko.View.Phase;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Members a and b are of the old Revision, c and d of the new one. */
class DecisionTest {
  private static final List<String> MEMBERS = List.of("a", "b", "c", "d");

  /**
   * What moves, for 30 shards: a has to own 0 to 9, b 10 to 19, c 20 to 28, and nobody 29. So at most three may be handed over at a
   * time. Shards are written as "a 0-4 c 5", members that are not up as "c joining".
   */
  @ParameterizedTest(name = "{0}")
  @CsvSource(
      delimiter = '|',
      textBlock =
          """
          rule                              | fresh | held          | atOnce | shards                      | moving   | members       | moves
          as planned                        | true  |               | 10     | a 0-9 b 10-19 c 20-28       |          |               |
          one elsewhere                     | true  |               | 10     | a 0-9 b 10-20 c 21-28       |          |               | 20
          the lowest first                  | true  |               | 10     | a 0-9 b 10-28 c             |          |               | 20-22
          the order does not matter         | true  |               | 10     | c b 28-10 a 9-0             |          |               | 20-22
          at once                           | true  |               | 2      | a 0-9 b 10-28 c             |          |               | 20-21
          not those in progress             | true  |               | 10     | a 0-9 b 10-28 c             | 20       |               | 21-22
          the limit is reached              | true  |               | 10     | a 0-9 b 10-28 c             | 20-22    |               |
          more than the limit               | true  |               | 10     | a 0-9 b 10-28 c             | 0-9      |               |
          others are in progress            | true  |               | 10     | a 0-9 b 10-28 c             | 1 2      |               | 20
          stale                             | false |               | 10     | a 0-9 b 10-28 c             |          |               |
          held                              | true  | MemberJoining | 10     | a 0-9 b 10-28 c             |          |               |
          a member is unreachable           | true  |               | 10     | a 0-9 b 10-28 c             |          | d unreachable |
          an owner is unreachable           | true  |               | 10     | a 0-9 b 10-28 c             |          | a unreachable |
          a member is joining               | true  |               | 10     | a 0-9 b 10-28 c             |          | d joining     |
          the owner has no region           | true  |               | 10     | a 0-9 b 10-28               |          |               |
          the owner leaves                  | true  |               | 10     | a 0-9 b 10-28 c             |          | c leaving     |
          another one leaves                | true  |               | 10     | a 0-9 b 10-28 c d           |          | d leaving     | 20-22
          one that leaves keeps its shards  | true  |               | 10     | a 0-8 b 10-28 c d 9         |          | d leaving     | 20-22
          from one that is not in the plan  | true  |               | 10     | a 0-8 b 10-28 c d 9         |          |               | 9 20 21
          an unplanned member, not removed  | true  |               | 10     | a 0-8 b 10-28 c e 9         |          |               | 20-22
          never allocated                   | true  |               | 10     | a 0-4 b 10 c 20             |          |               |
          owner is nobody                   | true  |               | 10     | a 0-9 b 10-19 c 20-28 d 29  |          |               |
          ids that are not planned          | true  |               | 10     | a 0-9 b 10-19 30 x 07 c     |          |               |
          """,
      useHeadersInDisplayName = true)
  void moves(String rule, boolean fresh, String held, int atOnce, String shards, String moving, String members, String moves) {
    Plan plan = plan(held == null ? "" : held, atOnce, List.of(10, 10, 9), thirty());
    Decision decision = decision(plan, view(shards, moving, members));
    assertEquals(Set.copyOf(ids(moves)), decision.moves(fresh));
  }

  /** Where a shard goes, by the same plan. */
  @ParameterizedTest(name = "{0}")
  @CsvSource(
      delimiter = '|',
      textBlock =
          """
          rule                                | shard | shards                        | members                     | owner
          to its owner                        | 20    | a 0-9 b 10-19 c d             |                             | c
          to its owner, whoever has more      | 0     | a 1-9 b c d                   |                             | a
          a held plan is followed too         | 20    | a b c                         | d joining                   | c
          no region: the same Revision        | 0     | b 10-19 c 20-21               |                             | b
          it leaves: the same Revision        | 0     | a 1-9 b 10-19 c               | a leaving                   | b
          unreachable: the same Revision      | 0     | a 1-9 b 10-19 c               | a unreachable               | b
          its Revision has no other           | 20    | a 0-8 b 10-18                 |                             | a
          its Revision has no other, by quota | 20    | a 0-9 b 10-18                 |                             | b
          one that is not planned is last     | 20    | a 0-9 b 10-19 d               | c leaving                   | a
          nobody owns it: by quota            | 29    | a 0-8 b 10-19 c 20-28         |                             | a
          nobody owns it: scaled quota        | 29    | a 0-2 b 10-12 c 20-21         |                             | c
          an id that is not planned           | x     | a 0-9 b 10-19 c 20-27 d       |                             | c
          nobody has a quota: the fewest      | 0     | d 9 e 8 7                     | e up                        | d
          nobody is up: by quota              | 0     | a 1 2 b 3                     | a leaving b leaving         | b
          the only one                        | 0     | c 20                          |                             | c
          """,
      useHeadersInDisplayName = true)
  void allocates(String rule, String shard, String shards, String members, String owner) {
    Plan plan = plan("MemberJoining", 10, List.of(10, 10, 9), thirty());
    assertEquals(owner, decision(plan, view(shards, "", members)).allocate(shard));
  }

  /** What moves if shard ids are free-form, by quotas alone: 10, 10, 9 and 1 of 30 shards. */
  @ParameterizedTest(name = "{0}")
  @CsvSource(
      delimiter = '|',
      textBlock =
          """
          rule                                  | shards                                | moving | members   | number | from
          as planned                            | a p0-9 b p10-19 c p20-28 d p29        |        |           | 0      |
          surplus goes                          | a p0-9 b p10-21 c p22-28 d p29        |        |           | 2      | b
          the limit                             | a p0-9 b p10-29 c d                   |        |           | 3      | b
          what is in progress has left          | a p0-9 b p10-21 c p22-28 d p29        | p10    |           | 1      | b
          a third of the shards                 | a p0-9 b c d                          |        |           | 3      | a
          a third, as planned                   | a p0-2 b p3-5 c p6-8 d p9             |        |           | 0      |
          equal remainders: stay                | a p0-1 b p2                           |        |           | 0      |
          equal remainders: stay, the other way | a p2 b p0-1                           |        |           | 0      |
          nobody with a quota                   | e p0-29                               |        | e up      | 0      |
          who leaves is not counted             | a p0-9 b p10-19 c p20-28 d p29        |        | c leaving | 0      |
          a member is joining                   | a p0-29 b c d                         |        | e joining | 0      |
          """,
      useHeadersInDisplayName = true)
  void followsQuotas(String rule, String shards, String moving, String members, int number, String from) {
    View view = view(shards, moving, members);
    Set<String> moves = decision(plan("", 10, List.of(10, 10, 9, 1), null), view).moves(true);
    assertEquals(number, moves.size(), () -> moves.toString());
    assertTrue(moves.isEmpty() || view.shards().get(from).containsAll(moves), () -> moves.toString());
  }

  /** An even plan for a few shards: at least one may move. */
  @Test
  void oneMayAlwaysMove() {
    Plan plan = plan(Map.of("Cart", 3), "", 10, List.of(1, 1, 1), List.of(0, 1, 2));
    assertEquals(Set.of("1"), decision(plan, view("a 0-2 b c", "", "")).moves(true));
  }

  /**
   * Plays a coordinator that hands shards over, and is restarted with its maps in another order: what moves is what has to, each
   * shard once, and no two coordinators decide differently.
   */
  @Test
  void movesTheFewestWhateverTheOrder() {
    Random random = new Random(14);
    for (int run = 0; run < 2000; run++) {
      boolean freeForm = run % 2 == 0;
      int shards = 1 + random.nextInt(120);
      int members = 1 + random.nextInt(4);
      List<Integer> owners = new ArrayList<>();
      int[] quotas = new int[members];
      for (int s = 0; s < shards; s++) {
        int owner = random.nextInt(members) * random.nextInt(2);
        owners.add(owner);
        quotas[owner]++;
      }
      int atOnce = 1 + random.nextInt(12);
      Plan plan = plan(Map.of("Cart", shards), "", atOnce, Arrays.stream(quotas).boxed().toList(), freeForm ? null : owners);
      Map<String, List<String>> now = new HashMap<>();
      MEMBERS.subList(0, members).forEach(m -> now.put(m, new ArrayList<>()));
      IntStream.range(0, shards).forEach(s -> now.get(MEMBERS.get(random.nextInt(members))).add(Integer.toString(s)));
      int fewest = 0;
      for (int m = 0; m < members; m++) {
        String member = MEMBERS.get(m);
        int own = m;
        fewest += freeForm
            ? Math.max(0, now.get(member).size() - quotas[m])
            : (int) now.get(member).stream().filter(s -> owners.get(Integer.parseInt(s)) != own).count();
      }
      assertEquals(fewest, converge(plan, now, Math.max(1, Math.min(atOnce, shards / 10)), random), "run " + run);
      for (int m = 0; m < members; m++) {
        assertEquals(quotas[m], now.get(MEMBERS.get(m)).size(), "run " + run);
      }
    }
  }

  /** Returns the number of moves. */
  private static int converge(Plan plan, Map<String, List<String>> now, int limit, Random random) {
    int moved = 0;
    Set<String> moving = new HashSet<>();
    while (true) {
      Set<String> moves = decision(plan, new View(now, moving, up(now.keySet()))).moves(true);
      assertEquals(moves, decision(plan, new View(shuffled(now, random), Set.copyOf(moving), up(now.keySet()))).moves(true));
      assertTrue(moves.size() + moving.size() <= limit);
      moving.addAll(moves);
      moved += moves.size();
      if (moving.isEmpty()) {
        return moved;
      }
      // Some of the hand-overs end before the next tick.
      for (String shard : List.copyOf(moving)) {
        if (random.nextBoolean()) {
          moving.remove(shard);
          now.values().forEach(s -> s.remove(shard));
          String owner = decision(plan, new View(now, Set.of(), up(now.keySet()))).allocate(shard);
          assertEquals(owner, decision(plan, new View(shuffled(now, random), Set.of(), up(now.keySet()))).allocate(shard));
          now.get(owner).add(shard);
        }
      }
    }
  }

  private static Map<String, List<String>> shuffled(Map<String, List<String>> shards, Random random) {
    List<String> members = new ArrayList<>(shards.keySet());
    Collections.shuffle(members, random);
    Map<String, List<String>> shuffled = new LinkedHashMap<>();
    members.forEach(m -> shuffled.put(m, List.copyOf(shards.get(m))));
    return shuffled;
  }

  private static Map<String, Phase> up(Set<String> members) {
    return members.stream().collect(Collectors.toMap(m -> m, m -> Phase.UP));
  }

  private static Decision decision(Plan plan, View view) {
    return new Decision(plan, plan.entityType("Cart").orElseThrow(), view);
  }

  private static List<Integer> thirty() {
    return IntStream.range(0, 30).mapToObj(s -> s == 29 ? -1 : s / 10).toList();
  }

  private static Plan plan(String held, int atOnce, List<Integer> quotas, List<Integer> owners) {
    return plan(Map.of("Cart", 30), held, atOnce, quotas, owners);
  }

  private static Plan plan(Map<String, Integer> type, String held, int atOnce, List<Integer> quotas, List<Integer> owners) {
    Map<String, Object> fields = Plans.fields(7);
    fields.put("held", held);
    fields.put("atOnce", atOnce);
    fields.put("members", MEMBERS.subList(0, quotas.size()).stream().map(m -> Plans.member(m, revision(m))).toList());
    fields.put("entityTypes", type.entrySet().stream().map(t -> Plans.entityType(t.getKey(), t.getValue(), quotas, owners)).toList());
    return Plans.plan(fields);
  }

  private static String revision(String member) {
    return member.equals("a") || member.equals("b") ? "cart-00001" : "cart-00002";
  }

  /** Members a to d are up unless said otherwise. */
  private static View view(String shards, String moving, String members) {
    Map<String, List<String>> regions = new LinkedHashMap<>();
    String region = null;
    for (String word : words(shards)) {
      if (word.matches("[a-e]")) {
        region = word;
        regions.put(region, new ArrayList<>());
      } else {
        regions.get(region).addAll(ids(word));
      }
    }
    Map<String, Phase> phases = new HashMap<>(up(Set.copyOf(MEMBERS)));
    List<String> said = words(members);
    for (int i = 0; i < said.size(); i += 2) {
      phases.put(said.get(i), Phase.valueOf(said.get(i + 1).toUpperCase(java.util.Locale.ROOT)));
    }
    return new View(regions, Set.copyOf(ids(moving)), phases);
  }

  private static List<String> words(String text) {
    return text == null || text.isBlank() ? List.of() : List.of(text.trim().split(" +"));
  }

  /** Writes out 5-7, 7-5 and p5-7. */
  private static List<String> ids(String text) {
    return words(text).stream().flatMap(DecisionTest::range).toList();
  }

  private static Stream<String> range(String word) {
    var range = java.util.regex.Pattern.compile("(p?)([0-9]+)-([0-9]+)").matcher(word);
    if (!range.matches()) {
      return Stream.of(word);
    }
    int from = Integer.parseInt(range.group(2));
    int to = Integer.parseInt(range.group(3));
    IntStream numbers = IntStream.rangeClosed(Math.min(from, to), Math.max(from, to));
    return numbers.map(n -> from > to ? from + to - n : n).mapToObj(n -> range.group(1) + n);
  }
}
