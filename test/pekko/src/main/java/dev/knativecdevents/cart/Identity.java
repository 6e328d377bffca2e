// SPDX-License-Identifier: Apache-2.0
package dev.knativecdevents.cart;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonProperty;

/** The Revision and the pod of a process. The annotations are for Akka's Jackson, which does not know records. */
record Identity(@JsonProperty("revision") String revision, @JsonProperty("pod") String pod) implements Wire {
  @JsonCreator
  Identity {}
}
