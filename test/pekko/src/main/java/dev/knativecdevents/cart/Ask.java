package dev.knativecdevents.cart;

import dev.knativecdevents.placement.pekko.EntityRequest;

/**
 * Ask is the message from the entry of a request to its cart.
 *
 * @param request is the name that the client gave it, which several requests may have
 * @param asked is what the library needs to know it again
 */
record Ask(String request, String cart, int shard, Identity entered, EntityRequest<Answer> asked) implements Wire {}
