// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.cart;

import com.typesafe.config.Config;
import com.typesafe.config.ConfigFactory;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;

/**
 * The settings in the environment.
 *
 * @param service is the cluster's name, the same for all Revisions
 * @param patience is how long the entry pod waits for the pod that handles the request
 * @param reportEntry adds the entry Revision to the request counter
 * @param kamon replaces the application's own counters by Kamon's
 * @param placement gives each Revision as many shards as the Route gives it requests
 * @param retry asks again if no answer comes; only with placement
 * @param rebalanceMillis is how often Pekko looks for shards to move
 * @param locks is the address of a program that sees whether two pods run the same cart at once; empty for none
 * @param appVersion is empty, or Pekko's app-version: new shards go to the highest one, and none move while there are two
 * @param podLabelSelector finds the pods of the cluster
 */
record Settings(
    Identity self,
    String service,
    String address,
    int port,
    int metricsPort,
    int shards,
    Fates fates,
    Duration patience,
    boolean reportEntry,
    boolean kamon,
    boolean placement,
    boolean retry,
    int rebalanceMillis,
    String locks,
    String appVersion,
    String podLabelSelector) {

  /** All pods of the Service. On Knative, Pekko's default "app=%s" finds those of one Revision only. */
  private static final String ALL_REVISIONS = "serving.knative.dev/service=%s";

  static Settings from(Map<String, String> env) throws UnknownHostException {
    InetAddress host = InetAddress.getLocalHost();
    String revision = env.getOrDefault("K_REVISION", "none");
    return new Settings(
        new Identity(revision, host.getHostName()),
        env.getOrDefault("K_SERVICE", "cart"),
        host.getHostAddress(),
        number(env, "PORT", 8080, 65535),
        9099,
        number(env, "SHARDS", 100, 1000),
        new Fates(
            share(env, "FAIL_RATE"),
            share(env, "SLOW_RATE"),
            share(env, "HANG_RATE"),
            Duration.ofMillis(number(env, "SLOW_MILLIS", 700, 60_000))),
        Duration.ofMillis(number(env, "PATIENCE_MILLIS", 5_000, 60_000)),
        "true".equals(env.get("REPORT_ENTRY")),
        "kamon".equals(env.get("METRICS")),
        "true".equals(env.get("PLACEMENT")),
        !"false".equals(env.get("RETRY")),
        number(env, "REBALANCE_MILLIS", 10_000, 60_000),
        env.getOrDefault("LOCKS", ""),
        env.getOrDefault("APP_VERSION", ""),
        env.getOrDefault("POD_LABEL_SELECTOR", ALL_REVISIONS).replace("{revision}", revision));
  }

  /** Pekko's configuration: the file, with settings of the pod. */
  Config config() {
    Map<String, Object> own = new HashMap<>();
    own.put("pekko.remote.artery.canonical.hostname", address);
    own.put("pekko.management.http.hostname", address);
    own.put("pekko.management.cluster.bootstrap.contact-point-discovery.service-name", service);
    own.put("pekko.discovery.kubernetes-api.pod-label-selector", podLabelSelector);
    own.put("pekko.cluster.sharding.number-of-shards", shards);
    own.put("knative-cdevents.ask.timeout", patience);
    own.put("pekko.cluster.sharding.rebalance-interval", Duration.ofMillis(rebalanceMillis));
    // Without placement, the application is one that knows nothing of the library, and asks once.
    own.put("knative-cdevents.ask.attempt", placement && retry ? Duration.ofSeconds(2) : patience);
    own.put("knative-cdevents.ask.revision", reportEntry ? self.revision() : "");
    if (!appVersion.isEmpty()) {
      own.put("pekko.cluster.app-version", appVersion);
    }
    return ConfigFactory.parseMap(own, "environment").withFallback(ConfigFactory.load());
  }

  private static double share(Map<String, String> env, String name) {
    String text = env.getOrDefault(name, "0");
    try {
      double share = Double.parseDouble(text);
      if (share >= 0 && share <= 1) {
        return share;
      }
    } catch (NumberFormatException e) {
      // Reported below, like any invalid value.
    }
    throw new IllegalArgumentException(name + "=" + text + " is not a share from 0 to 1");
  }

  private static int number(Map<String, String> env, String name, int otherwise, int most) {
    String text = env.getOrDefault(name, Integer.toString(otherwise));
    try {
      int number = Integer.parseInt(text);
      if (number >= 1 && number <= most) {
        return number;
      }
    } catch (NumberFormatException e) {
      // Reported below, like any invalid value.
    }
    throw new IllegalArgumentException(name + "=" + text + " is not a number from 1 to " + most);
  }
}
