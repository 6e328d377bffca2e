// SPDX-License-Identifier: Apache-2.0

// Package kafka tests the transport for Kafka with a real broker, in KRaft mode ("make test-kafka"). pom.xml has its
// version. Without the broker's jars, the tests are skipped.
package kafka
