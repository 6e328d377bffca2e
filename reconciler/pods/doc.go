// Package pods watches the pods of Knative Services, and finds out which Revision they belong to.
//
// Its invariant: whoever may create a pod may give it any label, so that a pod counts as a
// Service's only after its owners were followed up to a Revision of that Service.
package pods
