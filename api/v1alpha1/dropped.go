// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Reasons for which an event is dropped. Each is counted.
const (
	// DroppedJournalFull: the journal reached its limit.
	DroppedJournalFull = "JournalFull"
	// DroppedRejected: the sink rejected the event for good, and there is no dead letter
	// sink.
	DroppedRejected = "Rejected"
	// DroppedSourceRemoved: the source was deleted before its sink received the event.
	DroppedSourceRemoved = "SourceRemoved"
	// DroppedUnreadable: the journal entry cannot be read.
	DroppedUnreadable = "Unreadable"
	// DroppedSelectorInvalid: a selector of the source is not valid, so it selects nothing.
	DroppedSelectorInvalid = "SelectorInvalid"
	// DroppedTooManySources: the source's namespace has more sources than may receive events.
	DroppedTooManySources = "TooManySources"
	// DroppedSourceTooLarge: the source would add too much to the journal.
	DroppedSourceTooLarge = "SourceTooLarge"
	// DroppedTooManyLabels: the source selects by a label that was left out, because the
	// object or its namespace has too many.
	DroppedTooManyLabels = "TooManyLabels"
	// DroppedForgotten: the CDEventSubject has ForgetAnnotation.
	DroppedForgotten = "Forgotten"
)
