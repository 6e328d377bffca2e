// SPDX-License-Identifier: Apache-2.0

// Package kafka sends CloudEvents to topics of Apache Kafka, in the binary or the structured mode of CloudEvents'
// Kafka protocol binding.
//
// Its invariants, besides those of package transport:
//
//   - Acknowledged means that all in-sync replicas of the partition have the record (acks=all).
//   - The key of a record is the event's partitionkey, or its subject without one: the events about one object
//     are in one partition, in order. The producer is idempotent, so a record that it sends again is written once.
//   - The outcome of a record that was sent, and not answered within an attempt, stays unknown to the attempt. The
//     next attempt at the same event waits for that answer, and sends no second record.
//   - Each connection, also to a broker that another broker names, goes only where the operator and the owner of
//     the Secret allow it.
//   - No error quotes what a broker says.
//
// The parts: uri.go is the form of a sink's URI; record.go encodes events; clients.go keeps the clients of each
// source; client.go makes one, and dial.go its connections; send.go makes an attempt, and failure.go classifies
// what went wrong.
package kafka
