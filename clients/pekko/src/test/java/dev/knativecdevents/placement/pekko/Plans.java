// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Plans as the server writes them. */
final class Plans {
  private static final ObjectMapper JSON = new ObjectMapper();

  private Plans() {}

  /** The fields of a plan without members or entity types, to be changed. */
  static Map<String, Object> fields(long version) {
    Map<String, Object> plan = new LinkedHashMap<>();
    plan.put("namespace", "shop");
    plan.put("service", "cart");
    plan.put("version", version);
    plan.put("issuedAt", "2026-11-23T03:00:00Z");
    plan.put("mode", "enforce");
    plan.put("held", "");
    plan.put("atOnce", 10);
    plan.put("revisions", List.of(Map.of("name", "cart-00001", "percent", 100)));
    plan.put("members", List.of());
    plan.put("entityTypes", List.of());
    return plan;
  }

  static Map<String, Object> member(String address, String revision) {
    return Map.of("address", address, "pod", revision + "-deployment-abc", "revision", revision);
  }

  /** An entity type. Without owners, its shard ids are free-form. */
  static Map<String, Object> entityType(String name, int shards, List<Integer> quotas, List<Integer> owners) {
    Map<String, Object> type = new LinkedHashMap<>(Map.of("name", name, "shards", shards, "quotas", quotas));
    if (owners != null) {
      type.put("owners", owners);
    }
    return type;
  }

  static byte[] json(Map<String, Object> plan) {
    try {
      return JSON.writeValueAsBytes(plan);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  static Plan plan(Map<String, Object> fields) {
    try {
      return Plan.parse(json(fields));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
