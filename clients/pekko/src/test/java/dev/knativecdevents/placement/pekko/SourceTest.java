// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.typesafe.config.ConfigFactory;
import java.io.IOException;
import java.io.InputStream;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class SourceTest {
  @TempDir Path dir;
  private Path token;
  private FakeServer server;
  private Source source;

  @BeforeEach
  void start() throws IOException {
    token = Files.writeString(dir.resolve("token"), "token-1\n");
    server = new FakeServer();
    source = source(server.port(), "http", "");
  }

  @AfterEach
  void stop() {
    server.close();
  }

  @Test
  void asksForThePlanAndThenForAnotherOne() throws Exception {
    server.publish(Plans.fields(7));
    Known known = Known.NOTHING.after(source.ask(Known.NOTHING), 0);
    assertEquals(7, known.version());
    assertEquals(new FakeServer.Request(null, "Bearer token-1", null), server.requests.get(0));

    long began = System.nanoTime();
    assertEquals(new Answer.Unchanged(), source.ask(known));
    assertTrue(System.nanoTime() - began > 900_000_000L, "the server must be asked to wait");
    assertEquals(new FakeServer.Request("wait=1s", "Bearer token-1", "\"7\""), server.requests.get(1));

    server.publish(Plans.fields(8));
    assertEquals(8, assertInstanceOf(Answer.Found.class, source.ask(known)).plan().version());
  }

  @Test
  void readsTheTokenEachTime() throws Exception {
    server.publish(Plans.fields(7));
    server.accept("token-2");
    Answer.Refused refused = assertInstanceOf(Answer.Refused.class, source.ask(Known.NOTHING));
    assertTrue(refused.why().endsWith("answered 401: the token is not valid"), refused.why());
    Files.writeString(token, "token-2");
    assertInstanceOf(Answer.Found.class, source.ask(Known.NOTHING));
    for (String bad : List.of("", "secret with spaces", "secret\nsecret")) {
      Files.writeString(token, bad);
      String why = assertInstanceOf(Answer.Failed.class, source.ask(Known.NOTHING)).why();
      assertTrue(why.contains(token + " is empty or has no token") && !why.contains("secret"), why);
    }
    Files.delete(token);
    assertTrue(assertInstanceOf(Answer.Failed.class, source.ask(Known.NOTHING)).why().contains("cannot be read"));
  }

  @ParameterizedTest(name = "{0} {1}")
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '\'',
      textBlock =
          """
          400 | {"error":"wait is too long"}                      |    | Failed     | 0  | answered 400: wait is too long
          401 | {"error":"the token has expired"}                 |    | Refused    | 0  | answered 401: the token has expired
          403 | {"error":"not a pod of this Service"}             | 5  | Refused    | 5  | answered 403: not a pod of this Service
          404 | {"error":"no annotation","reason":"NotEnabled"}   |    | NotEnabled | 0  |
          404 | {"error":"wait","reason":"NoPlanYet"}             | 2  | Refused    | 2  | the server has no plan yet
          404 | {"reason":"SomethingElse"}                        |    | Failed     | 0  | is this the address of the controller?
          404 | <html>nginx</html>                                |    | Failed     | 0  | is this the address of the controller?
          429 | {"error":"slower"}                                | 7  | Failed     | 7  | answered 429: slower
          503 |                                                   | 7  | Failed     | 7  | answered 503
          302 |                                                   |    | Failed     | 0  | answered 302
          304 |                                                   |    | Failed     | 0  | but no plan is known
          """)
  void knowsTheAnswers(int status, String body, String retryAfter, String kind, int seconds, String why) throws Exception {
    Map<String, String> headers = retryAfter == null ? Map.of("Location", "/elsewhere") : Map.of("Retry-After", retryAfter);
    server.say(status, body == null ? "" : body, headers);
    Answer answer = source.ask(Known.NOTHING);
    assertEquals(kind, answer.getClass().getSimpleName());
    assertEquals(Duration.ofSeconds(seconds), answer.retryAfter());
    assertTrue(why == null || answer.toString().contains(why), answer.toString());
    assertEquals(1, server.requests.size(), "a redirect must not be followed");
  }

  @Test
  void refusesPlansThatAreNotItsOwnOrTooLarge() throws Exception {
    Map<String, Object> fields = Plans.fields(7);
    fields.put("service", "order");
    server.publish(fields);
    assertTrue(assertInstanceOf(Answer.Failed.class, source.ask(Known.NOTHING)).why().endsWith("with the plan of shop/order"));

    fields = Plans.fields(7);
    fields.put("padding", "x".repeat(4 << 20));
    server.publish(fields);
    assertTrue(assertInstanceOf(Answer.Failed.class, source.ask(Known.NOTHING)).why().contains("more than 4194304 bytes"));

    fields.put("padding", "x".repeat((4 << 20) - 1000));
    server.publish(fields);
    assertInstanceOf(Answer.Found.class, source.ask(Known.NOTHING));
  }

  @Test
  void doesNotWaitForever() throws Exception {
    try (ServerSocket silent = new ServerSocket(0)) {
      Thread drip = new Thread(() -> drip(silent));
      drip.setDaemon(true);
      drip.start();
      Source impatient = new Source(settings(silent.getLocalPort(), "http", ""), Duration.ofSeconds(1));
      String why = assertInstanceOf(Answer.Failed.class, impatient.ask(Known.NOTHING)).why();
      assertTrue(why.endsWith("within 1s"), why);
      drip.join(10_000);
      assertFalse(drip.isAlive(), "the connection must be closed");
    }
    server.close();
    assertTrue(assertInstanceOf(Answer.Failed.class, source.ask(Known.NOTHING)).why().contains("no answer from http://127.0.0.1"));
  }

  /** Sends one byte of the body every tenth of a second. */
  private static void drip(ServerSocket server) {
    try (Socket socket = server.accept()) {
      socket.getOutputStream().write("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n".getBytes(StandardCharsets.UTF_8));
      while (true) {
        socket.getOutputStream().write(' ');
        Thread.sleep(100);
      }
    } catch (IOException | InterruptedException e) {
      // The client has gone.
    }
  }

  @Test
  void readsBothFormsOfRetryAfter() {
    Instant now = Instant.parse("2026-11-23T03:00:00Z");
    assertEquals(Duration.ofSeconds(120), Source.retryAfter("120", now));
    assertEquals(Duration.ofSeconds(30), Source.retryAfter("Mon, 23 Nov 2026 03:00:30 GMT", now));
    assertEquals(Duration.ofMinutes(10), Source.retryAfter("999999999", now));
    for (String nothing : List.of("", "0", "-5", "soon", "9999999999", "Mon, 23 Nov 2026 02:00:00 GMT")) {
      assertEquals(Duration.ZERO, Source.retryAfter(nothing, now), nothing);
    }
  }

  @Test
  void trustsTheAuthoritiesInTheFileAsTheyChange() throws Exception {
    Path ca = Files.writeString(dir.resolve("ca.crt"), "");
    SSLContext tls = certificate("server", dir.resolve("server.crt"));
    certificate("other", dir.resolve("other.crt"));
    try (FakeServer https = new FakeServer(0, tls)) {
      https.publish(Plans.fields(7));
      Source source = source(https.port(), "https", "ca-file = \"" + ca + "\"");
      assertTrue(assertInstanceOf(Answer.Failed.class, source.ask(Known.NOTHING)).why().endsWith("has no certificate"));
      Files.copy(dir.resolve("other.crt"), ca, java.nio.file.StandardCopyOption.REPLACE_EXISTING);
      assertTrue(assertInstanceOf(Answer.Failed.class, source.ask(Known.NOTHING)).why().contains("SSLHandshakeException"));
      assertTrue(https.requests.isEmpty());
      Files.write(ca, Files.readAllBytes(dir.resolve("server.crt")), java.nio.file.StandardOpenOption.APPEND);
      assertInstanceOf(Answer.Found.class, source.ask(Known.NOTHING));
    }
    assertNull(server.requests.stream().findAny().orElse(null));
  }

  /** Makes a certificate for 127.0.0.1 that signs itself, with the JDK's keytool. */
  private SSLContext certificate(String name, Path pem) throws Exception {
    Path store = dir.resolve(name + ".p12");
    keytool(
        "-genkeypair", "-alias", name, "-keyalg", "EC", "-dname", "CN=" + name, "-ext", "san=ip:127.0.0.1", "-keystore", store.toString());
    keytool("-exportcert", "-rfc", "-alias", name, "-keystore", store.toString(), "-file", pem.toString());
    KeyStore keys = KeyStore.getInstance("PKCS12");
    try (InputStream in = Files.newInputStream(store)) {
      keys.load(in, "changeit".toCharArray());
    }
    KeyManagerFactory managers = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    managers.init(keys, "changeit".toCharArray());
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(managers.getKeyManagers(), null, null);
    return context;
  }

  private static void keytool(String... arguments) throws Exception {
    List<String> command = new java.util.ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "keytool").toString()));
    command.addAll(List.of(arguments));
    command.addAll(List.of("-storepass", "changeit", "-storetype", "PKCS12"));
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertTrue(process.waitFor(60, TimeUnit.SECONDS) && process.exitValue() == 0, said);
  }

  private Source source(int port, String scheme, String more) {
    return new Source(settings(port, scheme, more));
  }

  private Settings settings(int port, String scheme, String more) {
    String text =
        "%s { url = \"%s://127.0.0.1:%d\", namespace = shop, service = cart, token-file = \"%s\", wait = 1s\n%s }"
            .formatted(Settings.PATH, scheme, port, token, more);
    return Settings.from(ConfigFactory.parseString(text).withFallback(ConfigFactory.defaultReference()));
  }
}
