// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.apache.pekko.actor.AbstractExtensionId;
import org.apache.pekko.actor.Cancellable;
import org.apache.pekko.actor.ClassicActorSystemProvider;
import org.apache.pekko.actor.ExtendedActorSystem;
import org.apache.pekko.actor.Extension;
import org.apache.pekko.actor.typed.Behavior;
import org.apache.pekko.actor.typed.javadsl.Behaviors;
import org.apache.pekko.cluster.sharding.typed.ShardingEnvelope;
import org.apache.pekko.cluster.sharding.typed.javadsl.Entity;
import org.apache.pekko.cluster.sharding.typed.javadsl.EntityContext;
import org.apache.pekko.cluster.sharding.typed.javadsl.EntityRef;
import org.apache.pekko.cluster.sharding.typed.javadsl.EntityTypeKey;
import org.apache.pekko.pattern.StatusReply;

/**
 * Asks entities, and asks again if no answer comes, so that a shard that moves loses no request.
 *
 * <p>Each attempt sends the same message, with the same request id. An entity that uses {@link RecentRequests} handles it once.
 *
 * <pre>{@code
 * KnativeAsk ask = KnativeAsk.get(system);
 * sharding.init(ask.entity(CART, (entity, requests) -> Cart.create(entity.getEntityId(), requests)));
 * CompletionStage<Added> added = ask.ask(sharding.entityRefFor(CART, "7"), request -> new AddItem("sku-1", request));
 * }</pre>
 */
public final class KnativeAsk implements Extension {
  private static final Id ID = new Id();

  private final ExtendedActorSystem system;
  private final AskSettings settings;
  private final KnativeMetrics metrics;

  private KnativeAsk(ExtendedActorSystem system) {
    this.system = system;
    settings = AskSettings.from(system.settings().config());
    metrics = KnativeMetrics.get(system);
  }

  /**
   * The asks of the actor system. The first call reads the configuration.
   *
   * @throws IllegalArgumentException if a setting is wrong
   */
  public static KnativeAsk get(ClassicActorSystemProvider system) {
    return ID.get(system);
  }

  /**
   * An entity that gets its own {@link RecentRequests}. Use it in place of {@code Entity.of}.
   *
   * @param create makes the behavior of an entity when it starts
   */
  public <M> Entity<M, ShardingEnvelope<M>> entity(
      EntityTypeKey<M> key, BiFunction<EntityContext<M>, RecentRequests, Behavior<M>> create) {
    metrics.handles(key.name(), settings.revision());
    return Entity.of(
        key,
        entity ->
            Behaviors.setup(
                context -> {
                  // The shard is the entity's parent. EntityContext.getShard is one actor for the whole type.
                  String shard = URLDecoder.decode(context.getSelf().path().parent().name(), StandardCharsets.UTF_8);
                  return create.apply(entity, new RecentRequests(settings, metrics, key.name(), shard, System::nanoTime));
                }));
  }

  /** Asks with the timeout of the configuration. See {@link #ask(EntityRef, Function, Duration)}. */
  public <M, R> CompletionStage<R> ask(EntityRef<M> entity, Function<EntityRequest<R>, M> message) {
    return ask(entity, message, settings.timeout());
  }

  /**
   * Asks an entity, and again after each {@code knative-cdevents.ask.attempt} without an answer.
   *
   * @param message makes the message around the request. It is called once, and each attempt sends what it returned
   * @param timeout is for all attempts together, and must be shorter than {@code knative-cdevents.ask.remember}
   * @return the answer, or a {@link TimeoutException}: then the request may have been handled or not
   * @throws IllegalArgumentException if the timeout is not positive, or too long
   */
  public <M, R> CompletionStage<R> ask(EntityRef<M> entity, Function<EntityRequest<R>, M> message, Duration timeout) {
    if (timeout.toMillis() < 1 || timeout.compareTo(settings.remember()) >= 0) {
      String right = "must be at least 1 ms, and shorter than " + AskSettings.PATH + ".remember, which is ";
      throw new IllegalArgumentException("the timeout " + timeout + " " + right + settings.remember());
    }
    Attempts<M> attempts = new Attempts<>(entity, timeout);
    CompletionStage<R> answer =
        entity.ask(
            replyTo -> {
              attempts.message = message.apply(new EntityRequest<>(attempts.id, settings.revision(), timeout.toMillis(), replyTo));
              return attempts.message;
            },
            timeout);
    attempts.schedule();
    CompletableFuture<R> result = new CompletableFuture<>();
    answer.whenComplete(
        (value, error) -> {
          attempts.end(error == null);
          if (error == null) {
            result.complete(value);
          } else {
            result.completeExceptionally(attempts.explained(error));
          }
        });
    return result;
  }

  /** Asks with the timeout of the configuration. See {@link #askWithStatus(EntityRef, Function, Duration)}. */
  public <M, R> CompletionStage<R> askWithStatus(EntityRef<M> entity, Function<EntityRequest<StatusReply<R>>, M> message) {
    return askWithStatus(entity, message, settings.timeout());
  }

  /**
   * Asks as {@link #ask(EntityRef, Function, Duration)} does, an entity that answers with a {@link StatusReply}.
   *
   * @return the value of the answer, or its error, or a {@link TimeoutException}
   * @throws IllegalArgumentException if the timeout is not positive, or too long
   */
  public <M, R> CompletionStage<R> askWithStatus(
      EntityRef<M> entity, Function<EntityRequest<StatusReply<R>>, M> message, Duration timeout) {
    return ask(entity, message, timeout)
        .thenCompose(
            status ->
                status.isSuccess() ? CompletableFuture.completedStage(status.getValue()) : CompletableFuture.failedStage(status.getError()));
  }

  /** The attempts of one ask. */
  private final class Attempts<M> implements Runnable {
    final String id = UUID.randomUUID().toString();
    volatile M message;
    private final EntityRef<M> entity;
    private final Duration timeout;
    private final int most;
    private final AtomicInteger sent = new AtomicInteger(1);
    private volatile Cancellable schedule = Cancellable.alreadyCancelled();

    Attempts(EntityRef<M> entity, Duration timeout) {
      this.entity = entity;
      this.timeout = timeout;
      // One that begins when the time is up is of no use.
      most = (int) Math.min(Integer.MAX_VALUE, (timeout.toNanos() - 1) / settings.attempt().toNanos() + 1);
    }

    void schedule() {
      if (most > 1) {
        schedule = system.scheduler().scheduleWithFixedDelay(settings.attempt(), settings.attempt(), this, system.dispatcher());
      }
    }

    @Override
    public void run() {
      if (sent.get() == most) {
        schedule.cancel();
        return;
      }
      sent.incrementAndGet();
      metrics.askedAgain(entity.getTypeKey().name());
      entity.tell(message);
    }

    void end(boolean answered) {
      schedule.cancel();
      String outcome = !answered ? KnativeMetrics.GIVEN_UP : sent.get() == 1 ? KnativeMetrics.ANSWERED : KnativeMetrics.ANSWERED_LATER;
      metrics.asked(entity.getTypeKey().name(), outcome);
    }

    Throwable explained(Throwable error) {
      if (!(error instanceof TimeoutException)) {
        return error;
      }
      String who = entity.getTypeKey().name() + " " + entity.getEntityId();
      String what = "no answer of " + who + " to request " + id + ", asked " + sent + " times within " + timeout.toMillis() + " ms";
      TimeoutException explained = new TimeoutException(what + ": it may have been handled or not");
      explained.initCause(error);
      return explained;
    }
  }

  private static final class Id extends AbstractExtensionId<KnativeAsk> {
    @Override
    public KnativeAsk createExtension(ExtendedActorSystem system) {
      return new KnativeAsk(system);
    }
  }
}
