package dev.knativecdevents.cart;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.prometheus.metrics.exporter.httpserver.HTTPServer;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import org.junit.jupiter.api.Test;

class NeutralCountsTest {
  @Test
  void theContractAsText() throws Exception {
    NeutralCounts counts = new NeutralCounts(true);
    counts.shards(42);
    counts.started();
    counts.started();
    counts.finished(answer("cart-00001", Answer.OK), Duration.ofMillis(501));
    for (int i = 1; i <= 20; i++) {
      counts.finished(answer("cart-000" + (10 + i % 10), Answer.ERROR), Duration.ofMillis(500));
    }
    String text;
    try (HTTPServer server = counts.serve(0)) {
      URI uri = URI.create("http://127.0.0.1:" + server.getPort() + "/metrics");
      text = HttpClient.newHttpClient().send(HttpRequest.newBuilder(uri).build(), HttpResponse.BodyHandlers.ofString()).body();
    }
    for (String line :
        new String[] {
          "stateful_requests_started_total{entity_type=\"Cart\"} 2.0",
          "stateful_requests_total{entity_type=\"Cart\",entry_revision=\"cart-00001\",outcome=\"ok\"} 1.0",
          "stateful_requests_total{entity_type=\"Cart\",entry_revision=\"other\",outcome=\"error\"} 6.0",
          "stateful_shard_requests_total{entity_type=\"Cart\",outcome=\"error\",shard=\"7\"} 20.0",
          "stateful_shard_slow_requests_total{entity_type=\"Cart\",shard=\"7\"} 1.0",
          "stateful_request_duration_seconds_bucket{entity_type=\"Cart\",le=\"0.5\"} 20",
          "stateful_request_duration_seconds_count{entity_type=\"Cart\"} 21",
          "stateful_shards{entity_type=\"Cart\"} 42.0"
        }) {
      assertTrue(text.contains(line + "\n"), () -> line + " is missing in\n" + text);
    }
  }

  private static Answer answer(String entered, String outcome) {
    return new Answer("r", "c", 7, new Identity(entered, "p"), outcome, new Identity("cart-00002", "q"), 1);
  }
}
