// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"fmt"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/plural"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/words"
)

// States of the doorbell.
const (
	DoorbellRunning = "running"
	// DoorbellUnanswered: it runs, and the core does not answer it. One that has ended a moment ago looks the same.
	DoorbellUnanswered = "unanswered"
	DoorbellMissing    = "missing"
)

// Doorbell says whether the doorbell of the serverless mode rings the core, by its state, and when the core answered it
// last. A time is zero if it is not known. Without it, nothing is observed while the controller is asleep.
func (c Clock) Doorbell(state string, seen, rang time.Time, controller string) Finding {
	f := Finding{Kind: "Deployment", Namespace: c.System, Name: "doorbell", State: Broken}
	mode := " (serverless mode, controller " + controller + ")"
	switch state {
	case DoorbellRunning:
		f.State, f.What = Works, "it rings the core"+mode
	case DoorbellUnanswered:
		f.What = "the core does not answer it, or it has just ended" + mode
		f.Do = fmt.Sprintf("Look at what it says: kubectl logs -n %s deployment/doorbell", c.System)
	default:
		f.What = "it does not run, so nothing rings the core" + mode
		if !seen.IsZero() {
			f.What += "; it was last seen " + words.Span(c.Now.Sub(seen)) + " ago"
		}
		f.Do = fmt.Sprintf("Look at its pods: kubectl get pods -n %s -l app.kubernetes.io/component=doorbell", c.System)
	}
	if state != DoorbellMissing && !rang.IsZero() {
		f.What += "; the core answered last " + words.Span(c.Now.Sub(rang)) + " ago"
	}
	return f
}

// Owed says which events about an object the serverless mode sends again, and when. What a controller that stays knows
// of it, only it knows.
func (c Clock) Owed(entry *v1alpha1.CDEventSubject, source func(*v1alpha1.Attempt) string) []Finding {
	if entry == nil {
		return nil
	}
	var out []Finding
	f := Finding{Kind: entry.Spec.Kind, Namespace: entry.Spec.Namespace, Name: entry.Spec.Name, State: Waiting}
	for i := range entry.Status.Attempts {
		if a := &entry.Status.Attempts[i]; a.Tries > 0 {
			f.What = fmt.Sprintf("an event was tried %s for source %s; the next attempt is due %s",
				plural.Of(a.Tries, "time", "times"), source(a), c.in(a.NotBefore.Time))
			f.Do = "Look at the source: it says what its sink answers"
			out = append(out, f)
		}
	}
	if at := entry.Status.Due; at != nil {
		f.What, f.Do = "something lasts that is announced if it goes on; the core looks again "+c.in(at.Time), ""
		out = append(out, f)
	}
	return out
}

// in formats when something is due.
func (c Clock) in(at time.Time) string {
	if wait := at.Sub(c.Now); wait > 0 {
		return "in " + words.Span(wait)
	}
	return "now"
}
