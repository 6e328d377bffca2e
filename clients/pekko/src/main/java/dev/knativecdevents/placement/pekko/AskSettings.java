// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import com.typesafe.config.Config;
import java.time.Duration;

/** The settings in knative-cdevents.ask, which reference.conf explains. */
record AskSettings(Duration attempt, Duration timeout, String revision, Duration remember, int rememberMost) {
  static final String PATH = "knative-cdevents.ask";

  /** Throws an IllegalArgumentException that says what is wrong, where it is, and what would be right. */
  static AskSettings from(Config config) {
    Reader in = new Reader(PATH, config.getConfig(PATH));
    Duration day = Duration.ofDays(1);
    Duration attempt = in.duration("attempt", Duration.ofMillis(10), day);
    Duration timeout = in.duration("timeout", Duration.ofMillis(10), day);
    Duration remember = in.duration("remember", Duration.ofMillis(10), day);
    if (remember.compareTo(timeout) <= 0) {
      throw in.wrong("remember", "must be longer than timeout, or a request that is asked again may be handled again");
    }
    int most = in.get("remember-most", "a number from 1 to 1000000", Config::getInt);
    if (most < 1 || most > 1_000_000) {
      throw in.wrong("remember-most", "must be a number from 1 to 1000000");
    }
    return new AskSettings(attempt, timeout, in.text("revision"), remember, most);
  }
}
