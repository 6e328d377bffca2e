package dev.knativecdevents.cart;

import io.prometheus.metrics.core.metrics.Counter;
import io.prometheus.metrics.core.metrics.Gauge;
import io.prometheus.metrics.core.metrics.Histogram;
import io.prometheus.metrics.exporter.httpserver.HTTPServer;
import io.prometheus.metrics.model.registry.PrometheusRegistry;
import java.io.IOException;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** Implements this project's neutral contract: requests are counted after the last hop. */
final class NeutralCounts implements Counts {
  private static final String TYPE = "Cart";

  /** The contract's limit for slow requests. */
  private static final Duration SLOW = Duration.ofMillis(500);

  /** Bounds the values of label entry_revision. */
  private static final int MOST_ENTRIES = 8;

  private final PrometheusRegistry registry = new PrometheusRegistry();
  private final boolean reportEntry;
  private final Set<String> entries = ConcurrentHashMap.newKeySet();
  private final Counter started;
  private final Counter finished;
  private final Histogram duration;
  private final Counter byShard;
  private final Counter slowShard;
  private final Gauge shards;

  NeutralCounts(boolean reportEntry) {
    this.reportEntry = reportEntry;
    started = counter("stateful_requests_started_total", "Requests that began to be handled here.", "entity_type");
    String[] labels = reportEntry ? new String[] {"entity_type", "outcome", "entry_revision"} : new String[] {"entity_type", "outcome"};
    finished = counter("stateful_requests_total", "Requests that were handled here, by outcome.", labels);
    duration =
        Histogram.builder()
            .name("stateful_request_duration_seconds")
            .help("Time from the start to the end of handling.")
            .labelNames("entity_type")
            .classicOnly()
            .classicUpperBounds(.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10)
            .register(registry);
    byShard = counter("stateful_shard_requests_total", "Requests that were handled here, by shard and outcome.", "entity_type", "shard", "outcome");
    slowShard = counter("stateful_shard_slow_requests_total", "Requests that took more than 0.5 s here, by shard.", "entity_type", "shard");
    shards = Gauge.builder().name("stateful_shards").help("Shards that are active here.").labelNames("entity_type").register(registry);
    shards(0);
  }

  private Counter counter(String name, String help, String... labels) {
    return Counter.builder().name(name).help(help).labelNames(labels).register(registry);
  }

  /** Serves the counters at /metrics on a separate port. */
  HTTPServer serve(int port) throws IOException {
    return HTTPServer.builder().port(port).registry(registry).buildAndStart();
  }

  @Override
  public void started() {
    started.labelValues(TYPE).inc();
  }

  @Override
  public void finished(Answer answer, Duration took) {
    double seconds = took.toNanos() / 1e9;
    if (reportEntry) {
      finished.labelValues(TYPE, answer.outcome(), bounded(answer.entered().revision())).inc();
    } else {
      finished.labelValues(TYPE, answer.outcome()).inc();
    }
    String shard = Integer.toString(answer.shard());
    byShard.labelValues(TYPE, shard, answer.outcome()).inc();
    duration.labelValues(TYPE).observe(seconds);
    if (took.compareTo(SLOW) > 0) {
      slowShard.labelValues(TYPE, shard).inc();
    }
  }

  @Override
  public void shards(int n) {
    shards.labelValues(TYPE).set(n);
  }

  /** Limits the number of series as more Revisions appear. */
  private synchronized String bounded(String revision) {
    if (!entries.contains(revision) && entries.size() == MOST_ENTRIES) {
      return "other";
    }
    entries.add(revision);
    return revision;
  }
}
