// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.placement.pekko;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.Objects;
import org.apache.pekko.actor.typed.ActorRef;

/**
 * What a message to an entity carries in place of its {@code replyTo}. All attempts of one ask carry the same.
 *
 * <p>It is made by {@link KnativeAsk}, and serialized by Pekko's Jackson serializers. Another serializer has to transfer all of its
 * components.
 *
 * @param <R> is the type of the answer
 * @param id is unique for each ask
 * @param entryRevision is the Revision in which the request entered; empty outside of Knative
 * @param timeoutMillis is how long the asker waits for the answer, over all attempts
 * @param replyTo gets the answer
 */
public record EntityRequest<R>(
    @JsonProperty("id") String id,
    @JsonProperty("entryRevision") String entryRevision,
    @JsonProperty("timeoutMillis") long timeoutMillis,
    @JsonProperty("replyTo") ActorRef<R> replyTo) {

  @JsonCreator
  public EntityRequest {
    Objects.requireNonNull(id, "the request has no id");
    Objects.requireNonNull(replyTo, "the request has no replyTo");
    entryRevision = entryRevision == null ? "" : entryRevision;
  }
}
