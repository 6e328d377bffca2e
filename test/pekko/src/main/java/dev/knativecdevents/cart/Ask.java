package dev.knativecdevents.cart;

import org.apache.pekko.actor.typed.ActorRef;

/** Ask is the message from the entry of a request to its cart. */
record Ask(String request, String cart, int shard, Identity entered, ActorRef<Answer> replyTo) implements Wire {}
