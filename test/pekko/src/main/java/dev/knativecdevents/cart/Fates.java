// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.cart;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;

/** The faults of a build, as shares of the requests that it handles. */
record Fates(double failRate, double slowRate, double hangRate, Duration slowFor) {

  /** The fault of one request. */
  record Fate(boolean fails, boolean slow, boolean hangs) {}

  /** Depends on the request's id alone, exactly as in test/sharded, so both applications have the same expected result. */
  Fate of(String request) {
    ByteBuffer sum = ByteBuffer.wrap(sha256(request));
    return new Fate(draw(sum) < failRate, draw(sum) < slowRate, draw(sum) < hangRate);
  }

  /** A number in [0, 1). A double holds 53 bits exactly. */
  private static double draw(ByteBuffer from) {
    return (from.getLong() >>> 11) * 0x1.0p-53;
  }

  private static byte[] sha256(String text) {
    try {
      return MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java has SHA-256", e);
    }
  }
}
