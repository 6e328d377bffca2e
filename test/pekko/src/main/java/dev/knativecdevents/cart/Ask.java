// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.cart;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonProperty;
import dev.knativecdevents.placement.pekko.EntityRequest;

/**
 * Ask is the message from the entry of a request to its cart.
 *
 * @param request is the name that the client gave it, which several requests may have
 * @param asked is what the library needs to know it again
 */
record Ask(
    @JsonProperty("request") String request,
    @JsonProperty("cart") String cart,
    @JsonProperty("shard") int shard,
    @JsonProperty("entered") Identity entered,
    @JsonProperty("asked") EntityRequest<Answer> asked)
    implements Wire {
  @JsonCreator
  Ask {}
}
