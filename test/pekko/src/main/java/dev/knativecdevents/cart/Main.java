package dev.knativecdevents.cart;

/** The program. It names no class of Pekko's: Kamon has to be there before the first of them is loaded. */
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
    // The machine is of no interest here, and its metrics are half of the page.
    System.setProperty("kamon.modules.host-metrics.enabled", "no");
    // Between two ticks all values stand still; a minute, the default, is long for a test.
    System.setProperty("kamon.metric.tick-interval", "5s");
    kamon.Kamon.init();
  }
}
