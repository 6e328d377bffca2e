// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.cart;

import com.sun.net.httpserver.HttpServer;
import dev.knativecdevents.placement.pekko.KnativeMetrics;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.function.Supplier;

/** Serves the counters at /metrics, on a port of their own. */
final class Metrics {
  private Metrics() {}

  static HttpServer serve(int port, Supplier<String> text) throws IOException {
    HttpServer server = HttpServer.create(new InetSocketAddress(port), 0);
    server.createContext(
        "/metrics",
        exchange -> {
          byte[] body = text.get().getBytes(StandardCharsets.UTF_8);
          try (exchange) {
            exchange.getResponseHeaders().set("Content-Type", KnativeMetrics.CONTENT_TYPE);
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
          }
        });
    server.start();
    return server;
  }
}
