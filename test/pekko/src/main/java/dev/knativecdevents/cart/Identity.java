package dev.knativecdevents.cart;

/** Identity of a process: its Revision and its pod. */
record Identity(String revision, String pod) implements Wire {}
