// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.time.Instant;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeParseException;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** The server that has the plan. One thread may use it. */
final class Source {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int MOST_BYTES = 4 << 20;
  private static final Duration CONNECT = Duration.ofSeconds(5);

  /** How long an answer may take, beyond the time that the server waits for a new plan. */
  private static final Duration PATIENCE = Duration.ofSeconds(10);

  /** A server cannot silence a client for longer. */
  private static final Duration MOST_RETRY_AFTER = Duration.ofMinutes(10);

  private static final Pattern TOKEN = Pattern.compile("[A-Za-z0-9._~+/=-]+");

  private final Settings settings;
  private final Duration patience;
  private HttpClient client;
  private byte[] authorities;

  Source(Settings settings) {
    this(settings, PATIENCE);
  }

  Source(Settings settings, Duration patience) {
    this.settings = settings;
    this.patience = patience;
  }

  /** Asks for the plan. If one is known, the server answers when there is another one, or after a while. */
  Answer ask(Known known) throws InterruptedException {
    try {
      HttpResponse<byte[]> response = send(request(known), known.plan() == null ? Duration.ZERO : settings.poll());
      return answer(response, known);
    } catch (IOException | GeneralSecurityException e) {
      return new Answer.Failed(e.getMessage() == null ? e.getClass().getSimpleName() : e.getMessage(), Duration.ZERO);
    }
  }

  private HttpRequest request(Known known) throws IOException {
    HttpRequest.Builder request = HttpRequest.newBuilder();
    if (known.plan() == null) {
      request.uri(settings.url());
    } else {
      request.uri(URI.create(settings.url() + "?wait=" + settings.poll().toSeconds() + "s"));
      request.header("If-None-Match", "\"" + known.version() + "\"");
    }
    return request.header("Authorization", "Bearer " + token()).header("Accept", "application/json").build();
  }

  /** kubelet renews the file long before the token expires. */
  private String token() throws IOException {
    String token;
    try {
      token = Files.readString(settings.tokenFile()).trim();
    } catch (IOException e) {
      throw new IOException("the token in " + settings.tokenFile() + " cannot be read: " + e, e);
    }
    // Checked here, since the HTTP client's message would contain it.
    if (!TOKEN.matcher(token).matches()) {
      throw new IOException("the file " + settings.tokenFile() + " is empty or has no token");
    }
    return token;
  }

  private HttpResponse<byte[]> send(HttpRequest request, Duration wait)
      throws IOException, GeneralSecurityException, InterruptedException {
    CompletableFuture<HttpResponse<byte[]>> response = client().sendAsync(request, info -> new LimitedBody(MOST_BYTES));
    Duration limit = wait.plus(patience);
    try {
      // A timeout of the request would not cover the body.
      return response.get(limit.toMillis(), TimeUnit.MILLISECONDS);
    } catch (ExecutionException e) {
      throw new IOException("no answer from " + settings.url() + ": " + e.getCause(), e.getCause());
    } catch (TimeoutException e) {
      throw new IOException("no answer from " + settings.url() + " within " + limit.toSeconds() + "s", e);
    } finally {
      response.cancel(true);
    }
  }

  private Answer answer(HttpResponse<byte[]> response, Known known) throws IOException {
    Duration retryAfter = retryAfter(response.headers().firstValue("Retry-After").orElse(""), Instant.now());
    String said = settings.url() + " answered " + response.statusCode();
    switch (response.statusCode()) {
      case 200:
        Plan plan = Plan.parse(response.body());
        if (!plan.namespace().equals(settings.namespace()) || !plan.service().equals(settings.service())) {
          throw new IOException(said + " with the plan of " + plan.namespace() + "/" + plan.service());
        }
        return new Answer.Found(plan);
      case 304:
        return known.plan() == null ? new Answer.Failed(said + ", but no plan is known", retryAfter) : new Answer.Unchanged();
      case 401, 403:
        return new Answer.Refused(said + ": " + text(response.body(), "error"), retryAfter);
      case 404:
        String reason = text(response.body(), "reason");
        if (reason.equals("NotEnabled")) {
          return new Answer.NotEnabled(retryAfter);
        }
        if (reason.equals("NoPlanYet")) {
          return new Answer.Refused("the server has no plan yet", retryAfter);
        }
        return new Answer.Failed(said + " without a known reason: is this the address of the controller?", retryAfter);
      default:
        return new Answer.Failed(said + ": " + text(response.body(), "error"), retryAfter);
    }
  }

  /** A field of an error's body, shortened; empty if there is none. */
  private static String text(byte[] body, String field) {
    try {
      JsonNode json = JSON.readTree(body);
      String text = json == null ? "" : json.path(field).asText("");
      return text.length() > 200 ? text.substring(0, 200) : text;
    } catch (IOException e) {
      return ""; // What is between us and the server need not answer with JSON.
    }
  }

  /** Seconds, or a date. */
  static Duration retryAfter(String header, Instant now) {
    Duration wait = Duration.ZERO;
    try {
      if (header.matches("[0-9]{1,9}")) {
        wait = Duration.ofSeconds(Long.parseLong(header));
      } else if (!header.isEmpty()) {
        wait = Duration.between(now, ZonedDateTime.parse(header, DateTimeFormatter.RFC_1123_DATE_TIME).toInstant());
      }
    } catch (DateTimeParseException e) {
      return Duration.ZERO; // As if there were none: there is a backoff in any case.
    }
    if (wait.isNegative()) {
      return Duration.ZERO;
    }
    return wait.compareTo(MOST_RETRY_AFTER) > 0 ? MOST_RETRY_AFTER : wait;
  }

  /** The client that trusts what is in the file now. */
  private HttpClient client() throws IOException, GeneralSecurityException {
    byte[] now = settings.caFile().isPresent() ? Files.readAllBytes(settings.caFile().get()) : new byte[0];
    if (client == null || !Arrays.equals(now, authorities)) {
      HttpClient.Builder builder =
          HttpClient.newBuilder()
              .version(HttpClient.Version.HTTP_1_1)
              .connectTimeout(CONNECT)
              // The token goes to the server itself, and nowhere else.
              .followRedirects(HttpClient.Redirect.NEVER)
              .proxy(HttpClient.Builder.NO_PROXY);
      if (settings.caFile().isPresent()) {
        builder.sslContext(trusting(now, settings.caFile().get()));
      }
      client = builder.build();
      authorities = now;
    }
    return client;
  }

  private static SSLContext trusting(byte[] pem, Path file) throws IOException, GeneralSecurityException {
    KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
    store.load(null, null);
    int number = 0;
    for (Certificate certificate : CertificateFactory.getInstance("X.509").generateCertificates(new ByteArrayInputStream(pem))) {
      store.setCertificateEntry(Integer.toString(number++), certificate);
    }
    if (number == 0) {
      throw new IOException("the file " + file + " has no certificate");
    }
    TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(store);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(null, trust.getTrustManagers(), null);
    return context;
  }
}
