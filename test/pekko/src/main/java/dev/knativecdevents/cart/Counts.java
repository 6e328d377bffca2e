package dev.knativecdevents.cart;

import java.time.Duration;

/** Counts of what was handled here. */
interface Counts {
  void started();

  void finished(Answer answer, Duration took);

  /** How many shards live here. */
  void shards(int n);

  /** For who counts nothing, as most applications do that are not ours. */
  Counts NONE =
      new Counts() {
        @Override
        public void started() {}

        @Override
        public void finished(Answer answer, Duration took) {}

        @Override
        public void shards(int n) {}
      };
}
