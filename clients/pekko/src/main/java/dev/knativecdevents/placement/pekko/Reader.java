// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import com.typesafe.config.Config;
import com.typesafe.config.ConfigException;
import java.time.Duration;

/**
 * Reads single settings. Exceptions say what is wrong, where it is, and what would be right.
 *
 * @param section is the path of the settings
 */
record Reader(String section, Config config) {
  interface Getter<T> {
    T get(Config config, String path);
  }

  <T> T get(String path, String right, Getter<T> getter) {
    try {
      return getter.get(config, path);
    } catch (ConfigException e) {
      throw wrong(path, "must be " + right);
    }
  }

  String text(String path) {
    return get(path, "a text", Config::getString).trim();
  }

  Duration duration(String path, Duration least, Duration most) {
    String right = "a duration from " + plain(least) + " to " + plain(most);
    Duration duration = get(path, right, Config::getDuration);
    if (duration.compareTo(least) < 0 || duration.compareTo(most) > 0) {
      throw wrong(path, "must be " + right);
    }
    return duration;
  }

  private static String plain(Duration duration) {
    return duration.toMillis() % 1000 == 0 ? duration.toSeconds() + "s" : duration.toMillis() + "ms";
  }

  IllegalArgumentException wrong(String path, String what) {
    String setting = section + "." + path;
    if (config.hasPath(path)) {
      var value = config.getValue(path);
      setting += " = " + value.render() + " (" + value.origin().description() + ")";
    }
    return new IllegalArgumentException(setting + " " + what);
  }
}
