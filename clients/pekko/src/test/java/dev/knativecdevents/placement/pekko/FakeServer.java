// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import javax.net.ssl.SSLContext;

/**
 * A fake of the controller's placement API. It serves the plan that it is given, with the statuses, headers and long polls of the
 * real one, and knows no cluster and no Kubernetes.
 */
final class FakeServer implements AutoCloseable {
  private static final String PATH = "/v1/namespaces/shop/services/cart/placement";

  /** One request. A header that is absent is null. */
  record Request(String query, String authorization, String ifNoneMatch) {}

  final List<Request> requests = new CopyOnWriteArrayList<>();
  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final HttpServer server;
  private String token = "token-1";
  private byte[] plan;
  private long version;
  private int status;
  private String says;
  private Map<String, String> headers;

  /** @param port is 0 for any */
  FakeServer(int port, SSLContext tls) throws IOException {
    InetSocketAddress address = new InetSocketAddress("127.0.0.1", port);
    if (tls == null) {
      server = HttpServer.create(address, 0);
    } else {
      HttpsServer https = HttpsServer.create(address, 0);
      https.setHttpsConfigurator(new HttpsConfigurator(tls));
      server = https;
    }
    server.setExecutor(threads);
    server.createContext("/", this::handle);
    server.start();
  }

  FakeServer() throws IOException {
    this(0, null);
  }

  int port() {
    return server.getAddress().getPort();
  }

  synchronized void publish(Map<String, Object> fields) {
    plan = Plans.json(fields);
    version = (long) fields.get("version");
    status = 200;
    notifyAll();
  }

  /** Answers the same to every request. */
  synchronized void say(int status, String body, Map<String, String> headers) {
    this.status = status;
    says = body;
    this.headers = headers;
    notifyAll();
  }

  synchronized void accept(String token) {
    this.token = token;
  }

  @Override
  public void close() {
    server.stop(0);
    threads.shutdownNow();
  }

  private synchronized void handle(HttpExchange exchange) throws IOException {
    String authorization = exchange.getRequestHeaders().getFirst("Authorization");
    String known = exchange.getRequestHeaders().getFirst("If-None-Match");
    String query = exchange.getRequestURI().getQuery();
    requests.add(new Request(query, authorization, known));
    try (exchange) {
      exchange.getResponseHeaders().set("Server", "fake-placement");
      if (!exchange.getRequestURI().getPath().equals(PATH)) {
        answer(exchange, 404, "no such page".getBytes(StandardCharsets.UTF_8));
      } else if (!("Bearer " + token).equals(authorization)) {
        answer(exchange, 401, "{\"error\":\"the token is not valid\"}".getBytes(StandardCharsets.UTF_8));
      } else {
        waitForNews(query, known);
        serve(exchange, known);
      }
    }
  }

  private void waitForNews(String query, String known) {
    long until = System.nanoTime() + (query == null ? 0 : Long.parseLong(query.replaceAll("wait=([0-9]+)s", "$1")) * 1_000_000_000L);
    try {
      while (status == 200 && ("\"" + version + "\"").equals(known) && System.nanoTime() < until) {
        wait(Math.max(1, (until - System.nanoTime()) / 1_000_000));
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt(); // The server is closed.
    }
  }

  private void serve(HttpExchange exchange, String known) throws IOException {
    if (status != 200 || plan == null) {
      headers.forEach(exchange.getResponseHeaders()::set);
      answer(exchange, status, says.getBytes(StandardCharsets.UTF_8));
    } else if (("\"" + version + "\"").equals(known)) {
      answer(exchange, 304, new byte[0]);
    } else {
      exchange.getResponseHeaders().set("Content-Type", "application/json");
      exchange.getResponseHeaders().set("ETag", "\"" + version + "\"");
      answer(exchange, 200, plan);
    }
  }

  private static void answer(HttpExchange exchange, int status, byte[] body) throws IOException {
    exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
    exchange.getResponseBody().write(body);
  }
}
