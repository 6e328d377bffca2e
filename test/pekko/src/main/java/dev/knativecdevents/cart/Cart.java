// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.cart;

import dev.knativecdevents.placement.pekko.RecentRequests;
import org.apache.pekko.actor.typed.Behavior;
import org.apache.pekko.actor.typed.PostStop;
import org.apache.pekko.actor.typed.javadsl.AbstractBehavior;
import org.apache.pekko.actor.typed.javadsl.ActorContext;
import org.apache.pekko.actor.typed.javadsl.Behaviors;
import org.apache.pekko.actor.typed.javadsl.Receive;
import org.apache.pekko.cluster.sharding.typed.javadsl.EntityTypeKey;

/** The entity: one per cart in the whole cluster, on the member that has its shard. */
final class Cart extends AbstractBehavior<Ask> {
  static final EntityTypeKey<Ask> KEY = EntityTypeKey.create(Ask.class, "Cart");

  private final Settings settings;
  private final RecentRequests requests;
  private final Locks locks;
  private final String cart;
  private int items;

  private Cart(ActorContext<Ask> context, Settings settings, RecentRequests requests, Locks locks, String cart) {
    super(context);
    this.settings = settings;
    this.requests = requests;
    this.locks = locks;
    this.cart = cart;
    locks.take(cart);
  }

  static Behavior<Ask> create(Settings settings, RecentRequests requests, Locks locks, String cart) {
    return Behaviors.setup(context -> new Cart(context, settings, requests, locks, cart));
  }

  @Override
  public Receive<Ask> createReceive() {
    return newReceiveBuilder().onMessage(Ask.class, this::handle).onSignal(PostStop.class, signal -> stopped()).build();
  }

  /** Pekko waits for this before it tells the coordinator that the shard has stopped. */
  private Behavior<Ask> stopped() {
    locks.give(cart);
    return this;
  }

  private Behavior<Ask> handle(Ask ask) {
    requests.begin(ask.asked()).ifPresent(handling -> handle(ask, handling));
    return this;
  }

  private void handle(Ask ask, RecentRequests.Handling<Answer> handling) {
    long began = System.nanoTime();
    int now = ++items;
    Fates.Fate fate = settings.fates().of(ask.request());
    Runnable finish = () -> finish(ask, handling, fate, now, began);
    if (fate.hangs()) {
      return; // Started, and never finished.
    }
    if (fate.slow()) {
      getContext().getSystem().scheduler().scheduleOnce(settings.fates().slowFor(), finish, getContext().getExecutionContext());
    } else {
      finish.run();
    }
  }

  /** Runs outside of the entity if the request is slow, so it must not use the entity's state. */
  private void finish(Ask ask, RecentRequests.Handling<Answer> handling, Fates.Fate fate, int now, long began) {
    if (fate.fails()) {
      handling.replyError(Answer.to(ask, Answer.ERROR, settings.self(), now));
    } else if (System.nanoTime() - began > settings.patience().toNanos()) {
      handling.reply(Answer.to(ask, Answer.TIMEOUT, settings.self(), now));
    } else {
      handling.reply(Answer.to(ask, Answer.OK, settings.self(), now));
    }
  }
}
