package dev.knativecdevents.cart;

import com.fasterxml.jackson.annotation.JsonInclude;

/**
 * Answer is what a client is told, in the words of test/sharded.
 *
 * @param handled is null when nobody told in time
 * @param items is how often the cart was asked for where it lives now; a shard that moves forgets
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

  /** As HTTP says it. */
  int status() {
    return switch (outcome) {
      case OK -> 200;
      case ERROR -> 500;
      default -> 504;
    };
  }
}
