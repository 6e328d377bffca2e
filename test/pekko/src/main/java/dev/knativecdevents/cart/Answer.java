package dev.knativecdevents.cart;

import com.fasterxml.jackson.annotation.JsonInclude;

/**
 * Answer is the response to a client, in the format of test/sharded.
 *
 * @param handled is null if no answer came in time
 * @param items counts the requests for the cart on its current member; a shard that moves forgets it
 */
@JsonInclude(JsonInclude.Include.NON_NULL)
record Answer(
    String request, String cart, int shard, Identity entered, String outcome, Identity handled, int items)
    implements Wire {

  static final String OK = "ok";
  static final String ERROR = "error";
  static final String TIMEOUT = "timeout";

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
