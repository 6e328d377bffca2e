// SPDX-License-Identifier: Apache-2.0

// Package model checks the protocol of the write-ahead log exhaustively, on a small model: it visits every
// state that the protocol can reach within given bounds, and asserts in each that nothing committed is lost,
// forked or brought back.
//
// # The protocol
//
// The API server stores objects. An update succeeds only if the object still has the version that the writer
// names. A list of everything is one atomic snapshot. A watch delivers each write, arbitrarily late.
//
//   - The ring is a fixed number K of slot objects. Position p of the log is stored in slot p%K. A slot holds
//     its position, the identity of the attempt that wrote it, and records: subject, revision, whole state.
//   - Each subject has one entry object, its checkpoint: a revision and the whole state.
//   - Each process (a controller; all may write) knows the last position that it folded (end), the version of
//     each slot with the content that it folded, and of each subject the newest record, the newest position that
//     holds this record, and the revision of its checkpoint.
//   - Start: one snapshot of ring and entries together. The highest revision of a subject is the newest.
//   - Fold: only position end+1, in order. A process that misses a position starts over from a snapshot.
//     A checkpoint with a higher revision than the newest known one is adopted.
//   - Append: a batch of changes, each based on the newest record of its subject, is written to position end+1
//     if its slot still has the version that this process knows. A record that this overwrites is carried
//     (repeated in the new content) if it is the newest of its subject and not known to be checkpointed.
//   - Conflict: the process reads the slot of position end+1. It folds that position if the slot holds it and
//     reads on; it starts over if the slot holds a later one; if the slot holds an older one, the process takes
//     the slot's version and tries again with those changes whose subject has not moved.
//   - No answer: the process reads the slot. If the slot holds its own attempt, the changes are committed.
//     Otherwise they are reported as not confirmed. The write may still land.
//   - Checkpoint: the newest record of a subject is written to its entry, if this still has the version that
//     the process knows. After a conflict the process reads the entry, and tries again only if this holds a
//     lower revision.
//   - Delete (an option of the model): the entry of a subject whose last revision, after which there are no
//     more changes, is known to be checkpointed. The version is a precondition here as well. Records of a
//     subject without entry are dead. An entry that is gone is never created again; a new subject of the same
//     name has a new identity, and is a different subject in the model.
//
// # The model
//
// Two processes and two subjects. Any process may crash and start again, its writes may land after the crash or
// never, answers get lost, conflicts are reported for writes that landed, and others edit a slot without changing its
// content, each up to a bound. Files: state.go has the state, steps.go everything that can happen in a state,
// oracle.go what must hold, and search.go visits all states, breadth first, so that the trace to a violation
// is a shortest one. model_test.go has the bounds. It also leaves out each rule in turn (Rule), and asserts that
// this leads to a violation: the rule is needed, and the oracle notices.
//
// # Simplifications
//
//   - Versions count the writes of one object, instead of all objects. Versions of different objects are
//     never compared, so this is the same.
//   - A watch is not a queue. A process may fold any write of position end+1 that the server has ever
//     accepted, at any time afterwards. This includes each delivery in order, arbitrarily late, and each jump of
//     a relist, object by object. Positions that arrive early, and are held back until they can be folded, behave as
//     if they arrived later.
//   - A process may start over from a snapshot at any time, not only if it misses a position.
//   - A process is never down: as long as it does nothing, and then starts over, it might as well have been.
//   - Unless Config.Slow is set, a request and its answer are one step, and a process reads forward at once and sees
//     only the latest state of an entry. What is lost or late is modelled in any case: Config.Losses and Config.Late. What others do
//     in between changes little, since what a process knows may be old anyway. Config.Slow has each request, arrival
//     and answer as a step, and each state of an entry; its states are so many that its bounds are lower.
//   - The answer to a checkpoint is not a step. The process may see its entry at once by the watch, which has
//     the same effect, or later, or never, as if the answer is late or lost.
//   - What can no longer matter is forgotten, and processes that know the same are exchanged: see normalize.
//   - States are compared by a hash of 128 bits.
//
// Not modelled: batches that queue while an append is under way (a change is decided, checked and sent in one
// step), the creation of entries (they exist, with revision 0), the size limit of a slot, a slot that is deleted, an API server
// that is restored to an older state, a snapshot that is older than what the process has seen already, more than two processes
// or subjects, and progress (the model says that nothing bad happens, not that something good happens at last).
package model
