// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.cart;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Answer is the response to a client, in the format of test/sharded.
 *
 * @param handled is null if no answer came in time
 * @param items counts the requests for the cart on its current member; a shard that moves forgets it
 */
@JsonInclude(JsonInclude.Include.NON_NULL)
record Answer(
    @JsonProperty("request") String request,
    @JsonProperty("cart") String cart,
    @JsonProperty("shard") int shard,
    @JsonProperty("entered") Identity entered,
    @JsonProperty("outcome") String outcome,
    @JsonProperty("handled") Identity handled,
    @JsonProperty("items") int items)
    implements Wire {

  static final String OK = "ok";
  static final String ERROR = "error";
  static final String TIMEOUT = "timeout";

  @JsonCreator
  Answer {}

  static Answer to(Ask ask, String outcome, Identity handled, int items) {
    return new Answer(ask.request(), ask.cart(), ask.shard(), ask.entered(), outcome, handled, items);
  }

  /** The status code of the HTTP response. */
  int status() {
    return switch (outcome) {
      case OK -> 200;
      case ERROR -> 500;
      default -> 504;
    };
  }
}
