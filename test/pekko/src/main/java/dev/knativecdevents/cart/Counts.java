package dev.knativecdevents.cart;

import java.time.Duration;

/** Counts what this process handles. */
interface Counts {
  void started();

  void finished(Answer answer, Duration took);

  /** The number of shards on this member. */
  void shards(int n);

  /** For an application without counters, like most. */
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
