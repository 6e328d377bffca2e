/**
 * An application whose requests are handled by another pod than they entered: each cart is an entity of one Pekko
 * cluster, sharded over all pods of all Revisions of its Service.
 *
 * <p>Invariant: what handled a request counted it, and the answer names who that was. So whoever asked can tell the truth
 * without believing any metric. With {@code METRICS=kamon} it counts nothing itself, and what there is comes from Kamon.
 */
package dev.knativecdevents.cart;
