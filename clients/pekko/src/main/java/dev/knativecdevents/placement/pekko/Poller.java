// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import java.time.Duration;
import org.apache.pekko.event.LoggingAdapter;

/** Keeps the newest plan, on a thread of its own. */
final class Poller implements Runnable {
  /** Asks for the plan once. */
  interface Server {
    Answer ask(Known known) throws InterruptedException;
  }

  private final Server server;
  private final Backoff backoff;
  private final LoggingAdapter log;
  private final Thread thread;
  private volatile Known known = Known.NOTHING;
  private String said = "";

  Poller(Server server, Backoff backoff, LoggingAdapter log) {
    this.server = server;
    this.backoff = backoff;
    this.log = log;
    thread = new Thread(this, "knative-placement");
    thread.setDaemon(true);
  }

  void start() {
    thread.start();
  }

  void stop() {
    thread.interrupt();
  }

  Known known() {
    return known;
  }

  @Override
  public void run() {
    try {
      while (true) {
        long began = System.nanoTime();
        Answer answer = ask();
        known = known.after(answer, System.nanoTime());
        say(answer);
        Thread.sleep(backoff.after(answer, Duration.ofNanos(System.nanoTime() - began)).toMillis());
      }
    } catch (InterruptedException e) {
      // The actor system ends.
    }
  }

  private Answer ask() throws InterruptedException {
    try {
      return server.ask(known);
    } catch (RuntimeException | Error e) {
      // This thread is the only one that asks: without it, the plan would be stale until the member ends.
      log.error(e, "the request for the placement plan failed unexpectedly");
      return new Answer.Failed(e.toString(), Duration.ZERO);
    }
  }

  /** Logs what changes, and not each answer. */
  private void say(Answer answer) {
    String now = said(answer, known);
    if (now.equals(said)) {
      return;
    }
    said = now;
    if (answer instanceof Answer.Failed || answer instanceof Answer.Refused) {
      log.warning("placement: {}", now);
    } else {
      log.info("placement: {}", now);
    }
  }

  private static String said(Answer answer, Known known) {
    String then =
        known
            .toFollow()
            .map(p -> "; plan " + p.version() + " still says where new shards go")
            .orElse("; shards are placed by Pekko's default" + (known.settled() ? "" : ", and none moves before the first plan"));
    if (answer instanceof Answer.Failed failed) {
      return failed.why() + then;
    }
    if (answer instanceof Answer.Refused refused) {
      return refused.why() + then;
    }
    if (answer instanceof Answer.NotEnabled) {
      return "the Service has no annotation stateful.knative-cdevents.dev/placement" + then;
    }
    if (known.plan() == null) {
      return "the server's answer is older than the last plan" + then;
    }
    String held = known.plan().held().isEmpty() ? "" : ", held: " + known.plan().held();
    return "the server's plan is in mode " + known.plan().mode() + held;
  }
}
