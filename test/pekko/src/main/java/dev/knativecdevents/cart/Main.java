// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.cart;

/** The program. It refers to no class of Pekko, because Kamon must be attached before the first one is loaded. */
public final class Main {
  private Main() {}

  public static void main(String[] args) throws Exception {
    Settings settings = Settings.from(System.getenv());
    if (settings.kamon()) {
      kamon(settings.metricsPort());
    }
    App.start(settings);
  }

  private static void kamon(int port) {
    System.setProperty("kamon.prometheus.embedded-server.hostname", "0.0.0.0");
    System.setProperty("kamon.prometheus.embedded-server.port", Integer.toString(port));
    System.setProperty("kamon.modules.status-page.enabled", "no");
    // Metrics of the machine are irrelevant here, and would be half of the page.
    System.setProperty("kamon.modules.host-metrics.enabled", "no");
    // Values change only at ticks. The default of a minute is too long for a test.
    System.setProperty("kamon.metric.tick-interval", "5s");
    kamon.Kamon.init();
  }
}
