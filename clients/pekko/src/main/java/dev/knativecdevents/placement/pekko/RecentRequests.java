// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import java.time.Duration;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.apache.pekko.pattern.StatusReply;

/**
 * The requests that an entity handled lately, so that one that is asked again is not handled again.
 *
 * <p>Each entity has its own, which {@link KnativeAsk#entity} makes when the entity starts. It is in memory: after a move or a crash, the
 * entity's next incarnation starts with none. It remembers a request for {@code knative-cdevents.ask.remember}, and at most {@code
 * remember-most} of them. It may be used by several threads.
 *
 * <pre>{@code
 * private Behavior<Command> onAdd(AddItem add) {
 *   requests.handle(add.request(), () -> new Added(++items));
 *   return this;
 * }
 * }</pre>
 */
public final class RecentRequests {
  private final AskSettings settings;
  private final KnativeMetrics metrics;
  private final String entityType;
  private final String shard;
  private final LongSupplier clock;

  /** By id, the oldest first. */
  private final Map<String, Remembered> requests = new LinkedHashMap<>();

  private static final class Remembered {
    final long began;
    Object answer;

    Remembered(long began) {
      this.began = began;
    }
  }

  RecentRequests(AskSettings settings, KnativeMetrics metrics, String entityType, String shard, LongSupplier clock) {
    this.settings = settings;
    this.metrics = metrics;
    this.entityType = entityType;
    this.shard = shard;
    this.clock = clock;
  }

  /**
   * Handles a request, unless it is known. If the handler throws, the request counts as an error, the asker gets no answer, and what was
   * thrown is thrown again.
   *
   * @param handler returns the answer
   */
  public <R> void handle(EntityRequest<R> request, Supplier<R> handler) {
    Handling<R> handling = begin(request).orElse(null);
    if (handling == null) {
      return;
    }
    R answer;
    try {
      answer = Objects.requireNonNull(handler.get(), "the answer to a request is null");
    } catch (RuntimeException | Error e) {
      handling.count(KnativeMetrics.ERROR);
      throw e;
    }
    handling.reply(answer);
  }

  /**
   * Begins to handle a request that is answered later, by {@link Handling#reply}. If it is known, there is nothing to do: it gets the answer
   * that it had, or it is dropped because that answer is still to come.
   *
   * @return the request to handle; empty if it is known
   */
  public <R> Optional<Handling<R>> begin(EntityRequest<R> request) {
    long now = clock.getAsLong();
    Remembered known;
    Object answer = null;
    boolean forgotten = false;
    Remembered begun = new Remembered(now);
    synchronized (this) {
      forget(now);
      known = requests.get(request.id());
      if (known == null) {
        forgotten = makeRoom();
        requests.put(request.id(), begun);
      } else {
        answer = known.answer;
      }
    }
    if (forgotten) {
      metrics.forgotten(entityType);
    }
    if (known == null) {
      metrics.started(entityType);
      return Optional.of(new Handling<>(request, begun));
    }
    metrics.repeated(entityType, answer != null);
    if (answer != null) {
      // Who sends two types of requests under one id gets what it deserves.
      @SuppressWarnings("unchecked")
      R same = (R) answer;
      request.replyTo().tell(same);
    }
    return Optional.empty();
  }

  /**
   * Remembers a request that a former incarnation of the entity handled, from now on. An entity that persists the ids and answers with its
   * state calls this for each when it recovers.
   *
   * @param answer is what a repeated request gets
   */
  public synchronized void remember(String id, Object answer) {
    long now = clock.getAsLong();
    forget(now);
    requests.remove(id);
    makeRoom();
    Remembered remembered = new Remembered(now);
    remembered.answer = Objects.requireNonNull(answer, "the answer to a request is null");
    requests.put(id, remembered);
  }

  private void forget(long now) {
    Iterator<Remembered> oldest = requests.values().iterator();
    while (oldest.hasNext() && now - oldest.next().began > settings.remember().toNanos()) {
      oldest.remove();
    }
  }

  /** Whether a request had to be forgotten too early. */
  private boolean makeRoom() {
    if (requests.size() < settings.rememberMost()) {
      return false;
    }
    Iterator<Remembered> oldest = requests.values().iterator();
    oldest.next();
    oldest.remove();
    return true;
  }

  /** A request that is being handled. It may be answered by any thread, once. */
  public final class Handling<R> {
    private final EntityRequest<R> request;
    private final Remembered remembered;

    private Handling(EntityRequest<R> request, Remembered remembered) {
      this.request = request;
      this.remembered = remembered;
    }

    /**
     * Sends the answer, and counts the request as {@code ok}: as {@code error} if the answer is a {@link StatusReply} with an error, and as
     * {@code timeout} if the asker has given up.
     *
     * @throws IllegalStateException if the request is answered already
     */
    public void reply(R answer) {
      reply(answer, answer instanceof StatusReply<?> status && status.isError() ? KnativeMetrics.ERROR : KnativeMetrics.OK);
    }

    /**
     * Sends an answer that tells of a failure, and counts the request as {@code error}.
     *
     * @throws IllegalStateException if the request is answered already
     */
    public void replyError(R answer) {
      reply(answer, KnativeMetrics.ERROR);
    }

    private void reply(R answer, String outcome) {
      Objects.requireNonNull(answer, "the answer to a request is null");
      synchronized (RecentRequests.this) {
        if (remembered.answer != null) {
          throw new IllegalStateException("request " + request.id() + " is answered already");
        }
        remembered.answer = answer;
      }
      count(outcome);
      request.replyTo().tell(answer);
    }

    private void count(String outcome) {
      Duration took = Duration.ofNanos(clock.getAsLong() - remembered.began);
      boolean late = took.toMillis() > request.timeoutMillis();
      metrics.finished(entityType, shard, late ? KnativeMetrics.TIMEOUT : outcome, request.entryRevision(), took);
    }
  }
}
