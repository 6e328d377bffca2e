package dev.knativecdevents.cart;

/** The Revision and the pod of a process. */
record Identity(String revision, String pod) implements Wire {}
