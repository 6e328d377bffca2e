// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.IOException;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * Which member must own each shard, as the server says.
 *
 * @param version increases with each plan
 * @param held is the reason why no shard may move by choice; empty if they may
 * @param atOnce is the number of shards of one entity type that may be handed over at a time
 */
record Plan(
    @JsonProperty(value = "namespace", required = true) String namespace,
    @JsonProperty(value = "service", required = true) String service,
    @JsonProperty(value = "version", required = true) long version,
    @JsonProperty(value = "mode", required = true) String mode,
    @JsonProperty("held") String held,
    @JsonProperty(value = "atOnce", required = true) int atOnce,
    @JsonProperty(value = "members", required = true) List<Member> members,
    @JsonProperty(value = "entityTypes", required = true) List<EntityType> entityTypes) {

  /** The plan is published, but nobody follows it. */
  static final String OBSERVE = "observe";

  static final String ENFORCE = "enforce";

  private static final ObjectReader JSON =
      JsonMapper.builder()
          // A newer server may say more.
          .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
          .enable(DeserializationFeature.FAIL_ON_NULL_FOR_PRIMITIVES)
          .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
          .disable(DeserializationFeature.ACCEPT_FLOAT_AS_INT)
          .build()
          .readerFor(Plan.class);

  /** @param address is the member's, as the cluster has it: {@code pekko://system@host:port} */
  record Member(
      @JsonProperty(value = "address", required = true) String address, @JsonProperty(value = "revision", required = true) String revision) {
    @JsonCreator
    Member {}
  }

  /**
   * @param quotas are the numbers of shards of the members
   * @param owners are indexes of members, by shard id; -1 is nobody. Null if shard ids are not 0 to shards-1
   */
  record EntityType(
      @JsonProperty(value = "name", required = true) String name,
      @JsonProperty(value = "shards", required = true) int shards,
      @JsonProperty(value = "quotas", required = true) List<Integer> quotas,
      @JsonProperty("owners") List<Integer> owners) {

    @JsonCreator
    EntityType {}

    private void check(int members) {
      Plan.check(shards >= 1, "entity type %s has %d shards", name, shards);
      Plan.check(quotas.size() == members, "entity type %s has %d quotas for %d members", name, quotas.size(), members);
      Plan.check(quotas.stream().allMatch(q -> q != null && q >= 0), "entity type %s has a quota below 0", name);
      if (owners != null) {
        Plan.check(owners.size() == shards, "entity type %s has %d owners for %d shards", name, owners.size(), shards);
        Plan.check(
            owners.stream().allMatch(o -> o != null && o >= -1 && o < members), "entity type %s has an owner that is no member", name);
      }
    }
  }

  // The creators and names are for Jackson before 2.12, which does not know records.
  @JsonCreator
  Plan {
    held = held == null ? "" : held;
    check(namespace != null && service != null, "namespace or service is null");
    check(version > 0, "version %d is not positive", version);
    check(ENFORCE.equals(mode) || OBSERVE.equals(mode), "mode \"%s\" is unknown", mode);
    check(atOnce >= 1, "atOnce %d is less than 1", atOnce);
    check(members != null && entityTypes != null, "members or entityTypes is null");
    Set<String> addresses = new HashSet<>();
    for (Member member : members) {
      check(member != null && member.address != null && member.revision != null, "a member has no address or no Revision");
      check(addresses.add(member.address), "two members have the address %s", member.address);
    }
    Set<String> names = new HashSet<>();
    for (EntityType type : entityTypes) {
      check(type != null && type.name != null && type.quotas != null, "an entity type has no name or no quotas");
      check(names.add(type.name), "two entity types have the name %s", type.name);
      type.check(members.size());
    }
  }

  /** Reads a plan. The message of the exception says what is wrong with it. */
  static Plan parse(byte[] json) throws IOException {
    try {
      Plan plan = JSON.readValue(json);
      if (plan == null) {
        throw new IOException("the plan is null");
      }
      return plan;
    } catch (JsonProcessingException e) {
      throw new IOException("the plan cannot be read: " + e.getOriginalMessage(), e);
    }
  }

  Optional<EntityType> entityType(String name) {
    return entityTypes.stream().filter(t -> t.name.equals(name)).findFirst();
  }

  /** The member that must own the shard. Empty if that is nobody, or the plan does not know the shard. */
  Optional<Member> owner(EntityType type, String shard) {
    int number = type.owners == null ? -1 : number(shard);
    if (number < 0 || number >= type.owners.size() || type.owners.get(number) < 0) {
      return Optional.empty();
    }
    return Optional.of(members.get(type.owners.get(number)));
  }

  /** The number that a shard id is, or -1 if it is none, such as 07 and +7. */
  static int number(String shard) {
    if (shard.isEmpty() || shard.length() > 9 || (shard.length() > 1 && shard.charAt(0) == '0')) {
      return -1;
    }
    return shard.chars().allMatch(c -> c >= '0' && c <= '9') ? Integer.parseInt(shard) : -1;
  }

  private static void check(boolean ok, String message, Object... values) {
    if (!ok) {
      throw new IllegalArgumentException(String.format(message, values));
    }
  }
}
