// SPDX-License-Identifier: Apache-2.0

// Package wal is a write-ahead log of CDEventSubjects. What changes in many of them at about the same time costs the API server one
// write, not one for each.
//
// The log is a ring of slots: CDEventSubjects of kind Log. An append writes the next slot by compare-and-swap, with the whole next
// state of each CDEventSubject that changes, compressed together. It is a commit: who was answered may send events. The
// CDEventSubjects themselves are checkpoints. They are written later, so that users see them, and so that the ring stays small.
//
// Any process may append, whether it leads or not, as any may write an object. What makes that safe:
//
//  1. A state has a revision, the one before plus 1. Of two states of a CDEventSubject, the one with the higher revision is the newer,
//     wherever it is read. One that is created again under the same name begins above all revisions of the earlier one.
//  2. Position p is in slot p modulo the number of slots. An append at position n+1 is a compare-and-swap on the version of that slot
//     whose content this process has folded, after all positions up to n, in order. So it knows every state that is committed.
//  3. In an append, each state must be based on the newest one of its CDEventSubject. After a conflict, this process reads on to the end
//     of the log and compares again.
//  4. A slot is overwritten only with what it still holds: states that are the newest of their CDEventSubjects and in no checkpoint are
//     carried to the new position.
//  5. An append without an answer is looked up by the identity of the attempt. If it is not there, it counts as not written. Should it
//     arrive later, whoever reads it folds it like another's.
//  6. A checkpoint has a committed state, and never replaces one with a higher revision.
//  7. A process starts from one consistent list of slots and checkpoints. If positions are missing, it starts again.
//  8. Slots are also read ahead of the informer, and the informer may deliver what is older than what was read. A process therefore
//     remembers what it has dropped. If the log tells of the end of a CDEventSubject that it has not seen, or the informer shows one
//     that had ended, it asks the API server whether that exists.
//
// The package test/model enumerates these rules, and what goes wrong without each of them.
package wal
