// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class PlanTest {
  private static final String ONE = "pekko://cart@10.0.0.5:7355";
  private static final String TWO = "pekko://cart@10.0.0.6:7355";

  @Test
  void readsWhatTheServerWrites() throws IOException {
    String json =
        """
        {"namespace":"shop","service":"cart","version":1795400000123,"issuedAt":"2026-11-23T03:00:00Z",
         "mode":"enforce","held":"MemberJoining","atOnce":10,"newField":{"a":1},
         "revisions":[{"name":"cart-00001","percent":50},{"name":"cart-00002","percent":50}],
         "members":[{"address":"pekko://cart@10.0.0.5:7355","pod":"cart-00001-deployment-abc","revision":"cart-00001"},
                    {"address":"pekko://cart@10.0.0.6:7355","pod":"cart-00002-deployment-def","revision":"cart-00002"}],
         "entityTypes":[{"name":"Cart","shards":4,"quotas":[2,1],"owners":[0,0,1,-1]},
                        {"name":"Order","shards":10,"quotas":[5,5]}]}
        """;
    Plan plan = Plan.parse(json.getBytes(StandardCharsets.UTF_8));
    assertEquals(1795400000123L, plan.version());
    assertEquals("MemberJoining", plan.held());
    Plan.EntityType cart = plan.entityType("Cart").orElseThrow();
    assertEquals(Optional.of(ONE), plan.owner(cart, "1").map(Plan.Member::address));
    assertEquals(Optional.of(TWO), plan.owner(cart, "2").map(Plan.Member::address));
    for (String unknown : List.of("3", "4", "-1", "", "x", "01", "+1", "1.0", "99999999999", "\u0661")) {
      assertEquals(Optional.empty(), plan.owner(cart, unknown), unknown);
    }
    assertEquals(Optional.empty(), plan.owner(plan.entityType("Order").orElseThrow(), "1"));
    assertEquals(Optional.empty(), plan.entityType("cart"));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '\'',
      textBlock =
          """
          version   | 0                                                     | version 0 is not positive
          version   | null                                                  | null
          version   | 1.5                                                   | loating-point
          mode      | "force"                                               | mode "force" is unknown
          mode      | null                                                  | mode "null" is unknown
          atOnce    | 0                                                     | atOnce 0 is less than 1
          members   | null                                                  | members or entityTypes is null
          members   | [null]                                                | a member has no address
          members   | [{"address":"a","revision":"r"},{"address":"a","revision":"r"}] | two members have the address a
          entityTypes | [{"name":"Cart","shards":0,"quotas":[1,1]}]         | Cart has 0 shards
          entityTypes | [{"name":"Cart","shards":2,"quotas":[2]}]           | Cart has 1 quotas for 2 members
          entityTypes | [{"name":"Cart","shards":2,"quotas":[3,-1]}]        | Cart has a quota below 0
          entityTypes | [{"name":"Cart","shards":2,"quotas":[1,1],"owners":[0]}]      | Cart has 1 owners for 2 shards
          entityTypes | [{"name":"Cart","shards":2,"quotas":[1,1],"owners":[0,2]}]    | Cart has an owner that is no member
          entityTypes | [{"name":"Cart","shards":2,"quotas":[1,1],"owners":[0,null]}] | Cart has an owner that is no member
          entityTypes | [{"name":"A","shards":1,"quotas":[1,0]},{"name":"A","shards":1,"quotas":[1,0]}] | two entity types have the name A
          """)
  void refusesWhatContradictsItself(String field, String value, String message) throws IOException {
    Map<String, Object> fields = Plans.fields(7);
    fields.put("members", List.of(Plans.member(ONE, "cart-00001"), Plans.member(TWO, "cart-00002")));
    fields.put(field, new com.fasterxml.jackson.databind.ObjectMapper().readTree(value));
    IOException e = assertThrows(IOException.class, () -> Plan.parse(Plans.json(fields)));
    assertTrue(e.getMessage().contains(message), e.getMessage());
  }

  @Test
  void refusesWhatIsIncomplete() {
    for (String field : List.of("namespace", "service", "version", "mode", "atOnce", "members", "entityTypes")) {
      Map<String, Object> fields = Plans.fields(7);
      fields.remove(field);
      IOException e = assertThrows(IOException.class, () -> Plan.parse(Plans.json(fields)));
      assertTrue(e.getMessage().contains(field), e.getMessage());
    }
    byte[] whole = Plans.json(Plans.fields(7));
    for (int end : new int[] {0, 1, whole.length - 1}) {
      assertThrows(IOException.class, () -> Plan.parse(Arrays.copyOf(whole, end)));
    }
    for (String text : List.of("null", "[]", "<html>", "{}{}")) {
      assertThrows(IOException.class, () -> Plan.parse(text.getBytes(StandardCharsets.UTF_8)), text);
    }
  }
}
