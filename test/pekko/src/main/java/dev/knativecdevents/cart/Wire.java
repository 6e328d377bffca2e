// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.cart;

/** Wire marks messages between pods; application.conf sets their serialization. */
interface Wire {}
