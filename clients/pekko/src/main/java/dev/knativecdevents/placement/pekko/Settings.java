// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import com.typesafe.config.Config;
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.regex.Pattern;

/**
 * The settings in knative-cdevents.placement, which reference.conf explains.
 *
 * @param url is the whole address of the plan
 * @param poll is how long the server waits for a new plan
 */
record Settings(
    boolean enabled,
    URI url,
    String namespace,
    String service,
    Path tokenFile,
    Optional<Path> caFile,
    Duration poll,
    Duration staleAfter,
    Duration minBackoff,
    Duration maxBackoff) {

  static final String PATH = "knative-cdevents.placement";

  private static final Path OWN_NAMESPACE = Path.of("/var/run/secrets/kubernetes.io/serviceaccount/namespace");
  private static final Pattern LABEL = Pattern.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?");

  static Settings from(Config config) {
    return from(config, OWN_NAMESPACE);
  }

  /** Throws an IllegalArgumentException that says what is wrong, where it is, and what would be right. */
  static Settings from(Config config, Path ownNamespace) {
    Reader in = new Reader(PATH, config.getConfig(PATH));
    if (!in.get("enabled", "on or off", Config::getBoolean)) {
      return new Settings(false, null, "", "", null, Optional.empty(), null, null, null, null);
    }
    String namespace = namespace(in, ownNamespace);
    String service = service(in);
    Duration wait = in.duration("wait", Duration.ofSeconds(1), Duration.ofSeconds(60));
    if (wait.toMillis() % 1000 != 0) {
      throw in.wrong("wait", "must be whole seconds, such as 30s");
    }
    Duration staleAfter = in.duration("stale-after", Duration.ofSeconds(1), Duration.ofSeconds(90));
    if (staleAfter.compareTo(wait) <= 0) {
      String why = "s, or the plan is stale before the server answers";
      throw in.wrong("stale-after", "must be longer than wait, which is " + wait.toSeconds() + why);
    }
    Duration min = in.duration("backoff.min", Duration.ofMillis(1), Duration.ofMinutes(1));
    Duration max = in.duration("backoff.max", min, Duration.ofMinutes(10));
    URI server = server(in);
    Path tokenFile = file(in, "token-file").orElseThrow(() -> in.wrong("token-file", "must be the path of the projected token"));
    Optional<Path> caFile = file(in, "ca-file");
    if (caFile.isPresent() && !server.getScheme().equals("https")) {
      throw in.wrong("ca-file", "has no effect, because url is " + server + ": set an https url, or remove ca-file");
    }
    URI url = URI.create(server + "/v1/namespaces/" + namespace + "/services/" + service + "/placement");
    return new Settings(true, url, namespace, service, tokenFile, caFile, wait, staleAfter, min, max);
  }

  private static URI server(Reader in) {
    String right = "must be the http or https address of a server without query, such as https://controller.knative-cdevents.svc";
    try {
      URI uri = new URI(in.text("url").replaceAll("/+$", ""));
      boolean http = "http".equals(uri.getScheme()) || "https".equals(uri.getScheme());
      if (!http || uri.getHost() == null || uri.getUserInfo() != null || uri.getQuery() != null || uri.getFragment() != null) {
        throw in.wrong("url", right);
      }
      return uri;
    } catch (URISyntaxException e) {
      throw in.wrong("url", right);
    }
  }

  private static String namespace(Reader in, Path own) {
    String namespace = in.text("namespace");
    if (namespace.isEmpty()) {
      try {
        namespace = Files.readString(own).trim();
      } catch (IOException e) {
        String why = "is empty, and " + own + " cannot be read (" + e.getClass().getSimpleName() + ")";
        throw in.wrong("namespace", why + ": set the namespace of the Service" + orOff());
      }
    }
    return label(in, "namespace", namespace, "the namespace of the Service");
  }

  private static String service(Reader in) {
    String service = in.text("service");
    if (service.isEmpty()) {
      throw in.wrong("service", "is empty, and so is K_SERVICE, which Knative sets: set the name of the Knative Service" + orOff());
    }
    return label(in, "service", service, "the name of the Knative Service");
  }

  private static String label(Reader in, String path, String value, String what) {
    if (!LABEL.matcher(value).matches()) {
      throw in.wrong(path, "is \"" + value + "\", which cannot be a name in Kubernetes: it must be " + what);
    }
    return value;
  }

  private static Optional<Path> file(Reader in, String path) {
    String text = in.text(path);
    if (text.isEmpty()) {
      return Optional.empty();
    }
    try {
      Path file = Path.of(text);
      if (Files.isReadable(file) && !Files.isDirectory(file)) {
        return Optional.of(file);
      }
    } catch (InvalidPathException e) {
      // Reported below, like any file that cannot be read.
    }
    throw in.wrong(path, "must be a file that can be read: mount the volume that has it" + orOff());
  }

  private static String orOff() {
    return ", or set " + PATH + ".enabled = off to run without placement";
  }
}
