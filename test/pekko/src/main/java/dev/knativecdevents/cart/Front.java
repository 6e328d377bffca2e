// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.cart;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executors;
import java.util.function.BooleanSupplier;
import java.util.regex.Pattern;

/** The entry for requests: GET or POST /cart/{id}. Header X-Request-Id decides a request's fate. */
final class Front {
  private static final Pattern NAME = Pattern.compile("[A-Za-z0-9._-]{1,64}");
  private static final ObjectMapper JSON = new ObjectMapper();

  /** Sends a request to its cart, on whichever member it is. */
  interface Carts {
    CompletionStage<Answer> ask(String request, String cart);
  }

  private final Carts carts;
  private final BooleanSupplier up;
  private final HttpServer server;

  Front(int port, Carts carts, BooleanSupplier up) throws IOException {
    this.carts = carts;
    this.up = up;
    server = HttpServer.create(new InetSocketAddress(port), 0);
    server.setExecutor(Executors.newCachedThreadPool());
    server.createContext("/cart/", this::cart);
    server.createContext("/healthz", this::health);
  }

  int port() {
    return server.getAddress().getPort();
  }

  void start() {
    server.start();
  }

  void stop() {
    server.stop(1);
  }

  private void cart(HttpExchange exchange) throws IOException {
    String cart = exchange.getRequestURI().getPath().substring("/cart/".length());
    String request = exchange.getRequestHeaders().getFirst("X-Request-Id");
    if (request == null || request.isEmpty()) {
      request = UUID.randomUUID().toString();
    }
    if (!NAME.matcher(cart).matches() || !NAME.matcher(request).matches()) {
      say(exchange, 400, "the cart and X-Request-Id must be up to 64 of A-Z a-z 0-9 . _ -\n");
      return;
    }
    Answer answer = carts.ask(request, cart).toCompletableFuture().join();
    exchange.getResponseHeaders().set("Content-Type", "application/json");
    say(exchange, answer.status(), JSON.writeValueAsString(answer) + "\n");
  }

  private void health(HttpExchange exchange) throws IOException {
    boolean ready = up.getAsBoolean();
    say(exchange, ready ? 200 : 503, ready ? "" : "not a member of the cluster yet\n");
  }

  private static void say(HttpExchange exchange, int status, String text) throws IOException {
    byte[] body = text.getBytes(StandardCharsets.UTF_8);
    try (exchange) {
      exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
      exchange.getResponseBody().write(body);
    }
  }
}
