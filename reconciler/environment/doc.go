// SPDX-License-Identifier: Apache-2.0

// Package environment watches provisioned environments: clusters of Cluster API, claims, composites and managed
// resources of Crossplane, and any other kind that an operator chooses.
//
// Its invariants:
//   - It reads and never writes, and it needs no provider's Go types. It never reads Secrets.
//   - Kinds come and go at run time. That a kind cannot be read, or is not chosen any more, says nothing about its
//     objects: only a definition that does not exist, or an answer of the API server, does.
//   - An environment is announced once, as the user declared it: what another object is made of is not announced.
//   - Caches hold projections of objects.
package environment
