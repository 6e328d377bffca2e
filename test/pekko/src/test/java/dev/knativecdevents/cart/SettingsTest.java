// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.cart;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.typesafe.config.Config;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Test;

class SettingsTest {
  private static final String SELECTOR = "pekko.discovery.kubernetes-api.pod-label-selector";
  private static final String VERSION = "pekko.cluster.app-version";

  @Test
  void allRevisionsAreOneClusterUnlessToldOtherwise() throws Exception {
    Config config = Settings.from(Map.of("K_SERVICE", "shop", "K_REVISION", "shop-00002")).config();
    assertEquals("serving.knative.dev/service=%s", config.getString(SELECTOR));
    assertEquals("shop", config.getString("pekko.management.cluster.bootstrap.contact-point-discovery.service-name"));
    assertEquals(100, config.getInt("pekko.cluster.sharding.number-of-shards"));
    // Pekko's default for "no version", the same on all members.
    assertEquals("0.0.0", config.getString(VERSION));

    config = Settings.from(Map.of("K_REVISION", "shop-00002", "POD_LABEL_SELECTOR", "app={revision}", "APP_VERSION", "2")).config();
    assertEquals("app=shop-00002", config.getString(SELECTOR));
    assertEquals("2", config.getString(VERSION));
  }

  @Test
  void asksAgainWithPlacementOnly() throws Exception {
    Map<String, String> env = Map.of("K_REVISION", "shop-00002", "REPORT_ENTRY", "true", "PATIENCE_MILLIS", "4000");
    Config config = Settings.from(env).config().getConfig("knative-cdevents.ask");
    assertEquals(Duration.ofSeconds(4), config.getDuration("attempt"));
    assertEquals(Duration.ofSeconds(4), config.getDuration("timeout"));
    assertEquals("shop-00002", config.getString("revision"));

    config = Settings.from(Map.of("K_REVISION", "shop-00002", "PLACEMENT", "true")).config().getConfig("knative-cdevents.ask");
    assertEquals(Duration.ofSeconds(2), config.getDuration("attempt"));
    assertEquals(Duration.ofSeconds(5), config.getDuration("timeout"));
    assertEquals("", config.getString("revision"));

    env = Map.of("PLACEMENT", "true", "RETRY", "false");
    config = Settings.from(env).config().getConfig("knative-cdevents.ask");
    assertEquals(Duration.ofSeconds(5), config.getDuration("attempt"));
  }

  @Test
  void whatIsWrongIsNamed() {
    for (Map<String, String> env :
        java.util.List.of(Map.of("FAIL_RATE", "1.1"), Map.of("SLOW_RATE", "NaN"), Map.of("SHARDS", "0"), Map.of("SLOW_MILLIS", "x"))) {
      Exception e = assertThrows(IllegalArgumentException.class, () -> Settings.from(env));
      String name = env.keySet().iterator().next();
      assertTrue(e.getMessage().startsWith(name + "=" + env.get(name)), e.getMessage());
    }
  }
}
