package dev.knativecdevents.cart;

import java.time.Duration;
import org.apache.pekko.actor.typed.Behavior;
import org.apache.pekko.actor.typed.javadsl.AbstractBehavior;
import org.apache.pekko.actor.typed.javadsl.ActorContext;
import org.apache.pekko.actor.typed.javadsl.Behaviors;
import org.apache.pekko.actor.typed.javadsl.Receive;
import org.apache.pekko.cluster.sharding.typed.javadsl.EntityTypeKey;

/** The entity: one per cart in the whole cluster, on the member that has its shard. */
final class Cart extends AbstractBehavior<Ask> {
  static final EntityTypeKey<Ask> KEY = EntityTypeKey.create(Ask.class, "Cart");

  private final Settings settings;
  private final Counts counts;
  private int items;

  private Cart(ActorContext<Ask> context, Settings settings, Counts counts) {
    super(context);
    this.settings = settings;
    this.counts = counts;
  }

  static Behavior<Ask> create(Settings settings, Counts counts) {
    return Behaviors.setup(context -> new Cart(context, settings, counts));
  }

  @Override
  public Receive<Ask> createReceive() {
    return newReceiveBuilder().onMessage(Ask.class, this::handle).build();
  }

  private Behavior<Ask> handle(Ask ask) {
    long began = System.nanoTime();
    counts.started();
    int now = ++items;
    Fates.Fate fate = settings.fates().of(ask.request());
    Runnable finish = () -> finish(ask, fate, now, began);
    if (fate.hangs()) {
      return this; // Started, and never finished.
    }
    if (fate.slow()) {
      getContext().getSystem().scheduler().scheduleOnce(settings.fates().slowFor(), finish, getContext().getExecutionContext());
    } else {
      finish.run();
    }
    return this;
  }

  /** Runs outside of the entity if the request is slow, so it must not use the entity's state. */
  private void finish(Ask ask, Fates.Fate fate, int now, long began) {
    Duration took = Duration.ofNanos(System.nanoTime() - began);
    String outcome = fate.fails() ? Answer.ERROR : Answer.OK;
    if (took.compareTo(settings.patience()) > 0) {
      outcome = Answer.TIMEOUT;
    }
    Answer answer = Answer.to(ask, outcome, settings.self(), now);
    counts.finished(answer, took);
    ask.replyTo().tell(answer);
  }
}
