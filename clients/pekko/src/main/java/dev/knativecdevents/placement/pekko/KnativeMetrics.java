// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import io.prometheus.metrics.core.metrics.Counter;
import io.prometheus.metrics.core.metrics.Gauge;
import io.prometheus.metrics.core.metrics.GaugeWithCallback;
import io.prometheus.metrics.core.metrics.Histogram;
import io.prometheus.metrics.expositionformats.PrometheusTextFormatWriter;
import io.prometheus.metrics.model.registry.PrometheusRegistry;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.apache.pekko.actor.AbstractExtensionId;
import org.apache.pekko.actor.ActorRef;
import org.apache.pekko.actor.ClassicActorSystemProvider;
import org.apache.pekko.actor.ExtendedActorSystem;
import org.apache.pekko.actor.Extension;
import org.apache.pekko.cluster.sharding.ClusterSharding;
import org.apache.pekko.cluster.sharding.ShardRegion;
import org.apache.pekko.pattern.Patterns;

/**
 * Counts what the entities of this member handle, as the controller reads it, and what this member asks. The README has the list.
 *
 * <p>The application serves {@link #text} at the port and path that it declares.
 */
public final class KnativeMetrics implements Extension {
  /** The content type of {@link #text}. */
  public static final String CONTENT_TYPE = PrometheusTextFormatWriter.CONTENT_TYPE;

  static final String OK = "ok";
  static final String ERROR = "error";
  static final String TIMEOUT = "timeout";

  static final String ANSWERED = "answered";
  static final String ANSWERED_LATER = "answered_after_retry";
  static final String GIVEN_UP = "given_up";

  private static final Id ID = new Id();
  private static final Duration SHARDS_EVERY = Duration.ofSeconds(1);

  /** The contract's limit for slow requests. */
  private static final Duration SLOW = Duration.ofMillis(500);

  private final ExtendedActorSystem system;
  private final PrometheusRegistry registry = new PrometheusRegistry();
  private final Counter asks = counter("stateful_asks_total", "Asks that ended here, by outcome.", "entity_type", "outcome");
  private final Counter retries = counter("stateful_ask_retries_total", "Attempts of asks after the first one.", "entity_type");
  private final Counter started =
      counter("stateful_requests_started_total", "Requests that began to be handled here.", "entity_type");
  private final Counter finished =
      counter("stateful_requests_total", "Requests that were handled here.", "entity_type", "outcome", "entry_revision");
  private final Histogram durations =
      Histogram.builder()
          .name("stateful_request_duration_seconds")
          .help("Time from the start to the end of handling.")
          .labelNames("entity_type")
          .classicOnly()
          .classicUpperBounds(.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10)
          .register(registry);
  private final Counter byShard =
      counter("stateful_shard_requests_total", "Requests that were handled here, by shard.", "entity_type", "shard", "outcome");
  private final Counter slow =
      counter("stateful_shard_slow_requests_total", "Requests that took more than 0.5 s here.", "entity_type", "shard");
  private final Counter repeated =
      counter("stateful_requests_repeated_total", "Requests that were known here, and not handled again.", "entity_type", "state");
  private final Counter forgotten =
      counter("stateful_requests_forgotten_total", "Requests that were forgotten early, for lack of room.", "entity_type");
  private final Gauge shards =
      Gauge.builder().name("stateful_shards").help("Shards that are here.").labelNames("entity_type").register(registry);

  private final Set<String> asking = ConcurrentHashMap.newKeySet();
  private final Set<String> handling = ConcurrentHashMap.newKeySet();
  private final Bounded revisions = new Bounded(16);
  private final Bounded shardIds = new Bounded(4096);

  private KnativeMetrics(ExtendedActorSystem system) {
    this.system = system;
    // The controller recognizes a restart by it.
    Gauge.builder()
        .name("process_start_time_seconds")
        .help("When the process started, in seconds since 1970.")
        .register(registry)
        .set(ManagementFactory.getRuntimeMXBean().getStartTime() / 1000.0);
    system.scheduler().scheduleWithFixedDelay(Duration.ZERO, SHARDS_EVERY, this::countShards, system.dispatcher());
  }

  /** The metrics of the actor system. */
  public static KnativeMetrics get(ClassicActorSystemProvider system) {
    return ID.get(system);
  }

  /** All metrics in Prometheus' text format. */
  public String text() {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    try {
      PrometheusTextFormatWriter.create().write(out, registry.scrape());
    } catch (IOException e) {
      throw new UncheckedIOException("writing metrics into memory", e);
    }
    return out.toString(StandardCharsets.UTF_8);
  }

  /** An age that is not known is absent, not 0. */
  void planAge(Supplier<Optional<Duration>> age) {
    GaugeWithCallback.builder()
        .name("stateful_placement_plan_age_seconds")
        .help("Time since the server last confirmed the plan that is known here.")
        .callback(callback -> age.get().ifPresent(a -> callback.call(a.toNanos() / 1e9)))
        .register(registry);
  }

  /** Exports zeros: an idle member must not look like one that does not count. */
  void handles(String entityType, String revision) {
    if (handling.add(entityType)) {
      started.initLabelValues(entityType);
      durations.initLabelValues(entityType);
      forgotten.initLabelValues(entityType);
      Set.of(OK, ERROR, TIMEOUT).forEach(outcome -> finished.initLabelValues(entityType, outcome, revisions.of(revision)));
      Set.of("answered", "in_progress").forEach(state -> repeated.initLabelValues(entityType, state));
    }
  }

  void asked(String entityType, String outcome) {
    asks(entityType);
    asks.labelValues(entityType, outcome).inc();
  }

  void askedAgain(String entityType) {
    asks(entityType);
    retries.labelValues(entityType).inc();
  }

  private void asks(String entityType) {
    if (asking.add(entityType)) {
      retries.initLabelValues(entityType);
      Set.of(ANSWERED, ANSWERED_LATER, GIVEN_UP).forEach(outcome -> asks.initLabelValues(entityType, outcome));
    }
  }

  void started(String entityType) {
    started.labelValues(entityType).inc();
  }

  void finished(String entityType, String shard, String outcome, String entryRevision, Duration took) {
    finished.labelValues(entityType, outcome, revisions.of(entryRevision)).inc();
    durations.labelValues(entityType).observe(took.toNanos() / 1e9);
    String bounded = shardIds.of(shard);
    byShard.labelValues(entityType, bounded, outcome).inc();
    if (took.compareTo(SLOW) > 0) {
      slow.labelValues(entityType, bounded).inc();
    }
  }

  void repeated(String entityType, boolean answered) {
    repeated.labelValues(entityType, answered ? "answered" : "in_progress").inc();
  }

  void forgotten(String entityType) {
    forgotten.labelValues(entityType).inc();
  }

  private Counter counter(String name, String help, String... labels) {
    return Counter.builder().name(name).help(help).labelNames(labels).register(registry);
  }

  private void countShards() {
    ClusterSharding sharding = handling.isEmpty() ? null : ClusterSharding.get(system);
    for (String entityType : handling) {
      if (sharding.getShardTypeNames().contains(entityType)) {
        ActorRef region = sharding.shardRegion(entityType);
        Patterns.ask(region, ShardRegion.getShardRegionStateInstance(), Duration.ofSeconds(5))
            .whenComplete(
                (answer, error) -> {
                  if (answer instanceof ShardRegion.CurrentShardRegionState state) {
                    // A shard that is too busy to answer is here all the same.
                    shards.labelValues(entityType).set(state.getShards().size() + state.getFailed().size());
                  } else {
                    shards.remove(entityType); // Unknown is absent, not what it was.
                  }
                });
      }
    }
  }

  /** Bounds the number of series, whatever messages say. */
  private static final class Bounded {
    private final Set<String> values = ConcurrentHashMap.newKeySet();
    private final int most;

    Bounded(int most) {
      this.most = most;
    }

    String of(String value) {
      if (values.contains(value)) {
        return value;
      }
      synchronized (this) {
        if (values.size() < most) {
          values.add(value);
          return value;
        }
        return "other";
      }
    }
  }

  private static final class Id extends AbstractExtensionId<KnativeMetrics> {
    @Override
    public KnativeMetrics createExtension(ExtendedActorSystem system) {
      return new KnativeMetrics(system);
    }
  }
}
