// SPDX-License-Identifier: Apache-2.0
/**
 * An application whose requests are often handled by another pod than the one they entered: each cart is an entity of one Pekko
 * cluster, sharded over all pods of all Revisions of its Service.
 *
 * <p>Invariant: the member that handles a request counts it, and the answer names that member. So a client knows the truth
 * without any metrics. With {@code METRICS=kamon} it has no counters of its own, only those of Kamon.
 */
package dev.knativecdevents.cart;
