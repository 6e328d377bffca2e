// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.typesafe.config.Config;
import com.typesafe.config.ConfigFactory;
import com.typesafe.config.ConfigParseOptions;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class SettingsTest {
  @TempDir Path dir;
  private Path namespace;
  private Path token;

  @BeforeEach
  void files() throws IOException {
    namespace = Files.writeString(dir.resolve("namespace"), "shop\n");
    token = Files.writeString(dir.resolve("token"), "abc");
  }

  @Test
  void theDefaultsAreForAPodOfKnative() {
    Settings settings = Settings.from(config("service = cart, token-file = \"" + token + "\""), namespace);
    assertEquals("http://controller.knative-cdevents.svc/v1/namespaces/shop/services/cart/placement", settings.url().toString());
    assertEquals(Optional.empty(), settings.caFile());
    assertEquals(Duration.ofSeconds(30), settings.poll());
    assertEquals(Duration.ofSeconds(90), settings.staleAfter());
    assertEquals(
        "/var/run/secrets/placement.knative-cdevents.dev/token",
        ConfigFactory.defaultReference().getString(Settings.PATH + ".token-file"));
  }

  @Test
  void whatIsSetIsUsed() throws IOException {
    Path ca = Files.writeString(dir.resolve("ca.crt"), "");
    String text =
        """
        url = "https://gates.example:8443/prefix/", namespace = store, service = cart
        token-file = "%s", ca-file = "%s", wait = 10s, stale-after = 20s
        """
            .formatted(token, ca);
    Settings settings = Settings.from(config(text), dir.resolve("absent"));
    assertEquals("https://gates.example:8443/prefix/v1/namespaces/store/services/cart/placement", settings.url().toString());
    assertEquals(Optional.of(ca), settings.caFile());
  }

  @Test
  void needsNothingIfItIsOff() {
    assertFalse(Settings.from(config("enabled = off"), dir.resolve("absent")).enabled());
  }

  @ParameterizedTest(name = "{0}")
  @CsvSource(
      delimiter = '|',
      textBlock =
          """
          enabled = perhaps                        | .enabled = "perhaps" (here: 1) must be on or off
          url = "controller"                       | .url = "controller" (here: 1) must be the http or https address of a server
          url = "ftp://controller"                 | must be the http or https address
          url = "http://"                          | must be the http or https address
          url = "http://a b"                       | must be the http or https address
          url = "http://user:pass@controller"      | must be the http or https address
          url = "http://controller?a=b"            | must be the http or https address
          url = {}                                 | must be a text
          namespace = Shop                         | .namespace = "Shop" (here: 1) is "Shop", which cannot be a name in Kubernetes
          service = ""                             | is empty, and so is K_SERVICE, which Knative sets: set the name of the Knative Service, or set
          service = "../secrets"                   | cannot be a name in Kubernetes: it must be the name of the Knative Service
          token-file = ""                          | must be the path of the projected token
          token-file = "/absent/token"             | .token-file = "/absent/token" (here: 1) must be a file that can be read: mount the volume that has it
          ca-file = "/absent/ca.crt", url = "https://controller" | .ca-file = "/absent/ca.crt" (here: 1) must be a file that can be read
          ca-file = "/dev/null"                    | has no effect, because url is http://controller.knative-cdevents.svc: set an https url, or remove ca-file
          wait = soon                              | must be a duration from 1s to 60s
          wait = 500ms                             | must be a duration from 1s to 60s
          wait = 1500ms                            | must be whole seconds
          wait = 61s                               | must be a duration from 1s to 60s
          stale-after = 91s                        | must be a duration from 1s to 90s
          stale-after = 30s                        | must be longer than wait, which is 30s
          backoff.min = 0s                         | must be a duration from 1ms to 60s
          backoff.max = 500ms                      | must be a duration from 1s to 600s
          """)
  void saysWhatIsWrongAndWhere(String setting, String message) {
    String text = "service = cart, token-file = \"" + token + "\", " + setting;
    Exception e = assertThrows(IllegalArgumentException.class, () -> Settings.from(config(text), namespace));
    assertTrue(e.getMessage().startsWith(Settings.PATH), e.getMessage());
    assertTrue(e.getMessage().contains(message), e.getMessage());
  }

  @Test
  void theReadmeHasEachSettingWithItsDefault() throws IOException {
    String readme = Files.readString(Path.of("README.md"));
    for (String section : List.of(Settings.PATH, AskSettings.PATH)) {
      for (var setting : ConfigFactory.defaultReference().getConfig(section).entrySet()) {
        String value = setting.getValue().unwrapped().toString();
        String row = "| `" + setting.getKey() + "` | " + (value.isEmpty() ? "" : "`" + value + "` |");
        assertTrue(readme.contains(row), row);
      }
    }
  }

  @Test
  void saysWhichNamespaceIsMissing() {
    Path absent = dir.resolve("absent");
    Exception e = assertThrows(IllegalArgumentException.class, () -> Settings.from(config("service = cart"), absent));
    assertTrue(e.getMessage().contains(absent + " cannot be read (NoSuchFileException): set the namespace"), e.getMessage());
  }

  private static Config config(String text) {
    ConfigParseOptions here = ConfigParseOptions.defaults().setOriginDescription("here");
    return ConfigFactory.parseString(Settings.PATH + " {" + text + "}", here).withFallback(ConfigFactory.defaultReference());
  }
}
