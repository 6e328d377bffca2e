// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"knative.dev/pkg/apis"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/reader"
	"github.com/knative-cdevents/knative-cdevents/cli/report"
	"github.com/knative-cdevents/knative-cdevents/cli/screen"
	"github.com/knative-cdevents/knative-cdevents/cli/timeline"
	"github.com/knative-cdevents/knative-cdevents/lifecycle/traffic"
)

// entryChanged tells what was journaled, delivered and dropped.
func (w *watcher) entryChanged(c reader.Change) {
	after, ok := c.New.(*v1alpha1.CDEventSubject)
	if !ok {
		return // finished: the deletion of the object was told
	}
	before, ok := c.Old.(*v1alpha1.CDEventSubject)
	if !ok {
		before = &v1alpha1.CDEventSubject{}
	}
	if (w.service != "" || w.selects != nil) && !report.IsService(after) || !w.covers(after.Spec.Namespace, after.Spec.Name) {
		return
	}
	object := w.object(after.Spec.Namespace, after.Spec.Name)
	t, err := timeline.Of(after)
	if err != nil {
		w.say(w.nowStamp(), object, screen.Text("unreadable"), err.Error())
	}
	for _, ev := range t.Events {
		if ev.Sequence <= before.Status.Sequence {
			continue
		}
		text := ev.Text
		if len(ev.PendingFor) > 0 {
			text += " (to be sent to " + strings.Join(report.All(ev.PendingFor, w.names), ", ") + ")"
		}
		w.say(w.stamp(ev.Time), object, screen.Cell{Text: ev.Short(), Style: styleOf(ev.Short())}, text)
	}
	for _, source := range slices.Sorted(maps.Keys(after.Status.Acknowledged)) {
		if upTo := after.Status.Acknowledged[source]; upTo > before.Status.Acknowledged[source] {
			w.say(w.nowStamp(), object, screen.Cell{Text: "told", Style: screen.Dim},
				fmt.Sprintf("%s has all up to event %d", w.names(source), upTo))
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(after.Status.Dropped)) {
		if n := after.Status.Dropped[reason] - before.Status.Dropped[reason]; n > 0 {
			w.say(w.nowStamp(), object, screen.Cell{Text: "dropped", Style: screen.Bad}, fmt.Sprintf("%d: %s", n, reason))
		}
	}
}

func styleOf(short string) screen.Style {
	switch short {
	case "service.rolledback", "service.removed", "incident.detected", "environment.deleted", "cluster.unsettled":
		return screen.Unsure
	}
	return screen.Good
}

// serviceChanged tells what a Service shows by itself.
func (w *watcher) serviceChanged(c reader.Change) {
	before, had := c.Old.(*servingv1.Service)
	after, has := c.New.(*servingv1.Service)
	one := after
	if !has {
		one = before
	}
	if one == nil || !w.covers(one.Namespace, one.Name) {
		return
	}
	object := w.object(one.Namespace, one.Name)
	switch {
	case !has:
		w.say(w.nowStamp(), object, screen.Cell{Text: "deleted", Style: screen.Unsure}, "the Service is gone")
		return
	case !had:
		w.say(w.nowStamp(), object, screen.Cell{Text: "created", Style: screen.Good}, "the Service is new")
		before = &servingv1.Service{}
	}
	split := traffic.Split(after.Status.Traffic)
	if len(split) > 0 && !slices.Equal(split, traffic.Split(before.Status.Traffic)) {
		w.say(w.nowStamp(), object, screen.Cell{Text: "traffic", Style: screen.Good}, "is now "+split.String())
	}
	was := conditionOf(before.Status.GetCondition(apis.ConditionReady))
	is := conditionOf(after.Status.GetCondition(apis.ConditionReady))
	if was != is {
		w.say(w.nowStamp(), object, screen.Text("ready"), is)
	}
}

func conditionOf(c *apis.Condition) string {
	switch {
	case c == nil:
		return "Unknown"
	case c.Reason == "" || c.IsTrue():
		return string(c.Status)
	}
	return string(c.Status) + ": " + c.Reason
}

// gateChanged tells when a run begins and ends, and when a gate can or cannot judge.
func (w *watcher) gateChanged(c reader.Change) {
	after, ok := c.New.(*v1alpha1.CanaryGate)
	if !ok || !w.covers(after.Namespace, after.Spec.Service) {
		return
	}
	before, ok := c.Old.(*v1alpha1.CanaryGate)
	if !ok {
		before = &v1alpha1.CanaryGate{}
	}
	object := w.object(after.Namespace, after.Spec.Service)
	name := "gate " + after.Name
	if l, was := after.Status.Latest, before.Status.Latest; l != nil &&
		(was == nil || was.ID != l.ID || was.Verdict != l.Verdict || !slices.Equal(was.Reasons, l.Reasons)) {
		text := fmt.Sprintf("%s: %s", l.Canary, l.Verdict)
		if len(l.Reasons) > 0 {
			text += " (" + strings.Join(l.Reasons, ", ") + ")"
		}
		w.say(w.nowStamp(), object, screen.Cell{Text: name, Style: verdictStyle(string(l.Verdict))}, text)
	}
	was, is := before.Status.GetCondition(apis.ConditionReady), after.Status.GetCondition(apis.ConditionReady)
	if conditionOf(was) != conditionOf(is) && is != nil {
		text := "can judge"
		if !is.IsTrue() {
			text = "cannot judge: " + is.Reason
		}
		w.say(w.nowStamp(), object, screen.Text(name), text)
	}
}

// sourceChanged tells when a source begins or ceases to deliver.
func (w *watcher) sourceChanged(c reader.Change) {
	after, ok := c.New.(*v1alpha1.CDEventSource)
	switch {
	case !ok, w.namespace != "" && after.Namespace != w.namespace:
		return
	case w.selects != nil && !w.selects.Matches(labels.Set(after.Labels)):
		return
	}
	before, ok := c.Old.(*v1alpha1.CDEventSource)
	if !ok {
		before = &v1alpha1.CDEventSource{}
	}
	was, is := w.clock().Source(before), w.clock().Source(after)
	if was.State == is.State && was.Reason == is.Reason {
		return
	}
	style := screen.Good
	if is.Reason != "" {
		style = screen.Bad
	}
	text := is.What
	if is.Reason != "" {
		text += " (" + is.Reason + ")"
	}
	w.say(w.nowStamp(), w.object(after.Namespace, after.Name), screen.Cell{Text: "source", Style: style}, text)
}

// object is how an object is called: with its namespace if there are several.
func (w *watcher) object(namespace, name string) string {
	if w.namespace != "" || namespace == "" {
		return name
	}
	return namespace + "/" + name
}
