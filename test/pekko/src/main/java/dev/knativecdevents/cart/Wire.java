package dev.knativecdevents.cart;

/** Wire marks what travels between pods; application.conf says how. */
interface Wire {}
