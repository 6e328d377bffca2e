// SPDX-License-Identifier: Apache-2.0
/**
 * Places the shards of a Pekko cluster as the percentages of its Knative Service say.
 *
 * <p>{@link dev.knativecdevents.placement.pekko.KnativePlacement} is what an application passes to sharding. It keeps the newest plan that
 * the controller serves: {@code Poller} asks {@code Source} for it over HTTP, and {@code Known} is what the answers amount to.
 * {@code PlannedStrategy} is what Pekko calls. It decides nothing: {@code Decision} does, without actors, threads or a clock.
 *
 * <p>{@link dev.knativecdevents.placement.pekko.KnativeAsk} asks entities again, {@link
 * dev.knativecdevents.placement.pekko.RecentRequests} lets them handle each request once, and {@link
 * dev.knativecdevents.placement.pekko.KnativeMetrics} counts both. They work without a plan as well.
 *
 * <p>Invariant: a decision depends only on the plan, on the allocations that the coordinator passes, and on the members as the
 * cluster shows them. So a coordinator that starts on another member decides the same.
 */
package dev.knativecdevents.placement.pekko;
