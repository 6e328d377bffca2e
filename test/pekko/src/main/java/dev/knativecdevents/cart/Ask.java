package dev.knativecdevents.cart;

import org.apache.pekko.actor.typed.ActorRef;

/** Ask is what travels from where a request entered to its cart. */
record Ask(String request, String cart, int shard, Identity entered, ActorRef<Answer> replyTo) implements Wire {}
