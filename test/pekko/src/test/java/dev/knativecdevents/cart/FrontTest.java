// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.cart;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class FrontTest {
  private final AtomicBoolean up = new AtomicBoolean();
  private Front front;

  @BeforeEach
  void start() throws Exception {
    Identity here = new Identity("cart-00001", "p1");
    front =
        new Front(
            0,
            (request, cart) -> {
              Identity there = cart.equals("hangs") ? null : new Identity("cart-00002", "p2");
              String outcome = switch (cart) {
                case "hangs" -> Answer.TIMEOUT;
                case "fails" -> Answer.ERROR;
                default -> Answer.OK;
              };
              return CompletableFuture.completedFuture(new Answer(request, cart, 7, here, outcome, there, 3));
            },
            up::get);
    front.start();
  }

  @AfterEach
  void stop() {
    front.stop();
  }

  /** In exactly the format of test/sharded: the end-to-end tests read both. */
  @Test
  void answersSayWhoHandled() throws Exception {
    HttpResponse<String> got = get("/cart/fails");
    assertEquals(500, got.statusCode());
    assertEquals(
        "{\"request\":\"r-1\",\"cart\":\"fails\",\"shard\":7,\"entered\":{\"revision\":\"cart-00001\",\"pod\":\"p1\"},"
            + "\"outcome\":\"error\",\"handled\":{\"revision\":\"cart-00002\",\"pod\":\"p2\"},\"items\":3}\n",
        got.body());
    assertEquals(200, get("/cart/a").statusCode());
    assertEquals(504, get("/cart/hangs").statusCode());
    assertTrue(get("/cart/hangs").body().contains("\"outcome\":\"timeout\",\"items\""), "its handler is unknown");
  }

  @Test
  void namesAreBounded() throws Exception {
    assertEquals(400, get("/cart/a%20b").statusCode());
    assertEquals(400, get("/cart/" + "a".repeat(65)).statusCode());
  }

  @Test
  void readyMeansMember() throws Exception {
    assertEquals(503, get("/healthz").statusCode());
    up.set(true);
    assertEquals(200, get("/healthz").statusCode());
  }

  private HttpResponse<String> get(String path) throws Exception {
    URI uri = URI.create("http://127.0.0.1:" + front.port() + path);
    HttpRequest request = HttpRequest.newBuilder(uri).header("X-Request-Id", "r-1").build();
    return HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
  }
}
