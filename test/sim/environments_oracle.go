// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Short names of the events of environments.
const (
	requestedEnvironment = "crossplane-cluster.created"
	createdEnvironment   = "environment.created"
	modifiedEnvironment  = "environment.modified"
	deletedEnvironment   = "environment.deleted"
)

// judgeEnvironments compares what a sink received with the history of the environments.
func (w *world) judgeEnvironments(got []delivered) {
	mine := map[types.UID][]delivered{}
	ended := map[types.NamespacedName]types.UID{}
	for _, d := range got {
		f := w.cluster.environment(d.uid)
		if f == nil {
			continue
		}
		mine[d.uid] = append(mine[d.uid], d)
		// Of one name, nothing is told of the next object before all is told of the last. While two processes lead at once,
		// each sends what it knows. A list that lags may show an object that was replaced by another one, which is gone by
		// now, too.
		if last, ok := ended[f.key]; ok && !w.with.leaders && !w.cluster.fleet.lagged && last != f.uid && w.cluster.environment(last).created.After(f.created) {
			w.fail("%s: %s was told after an event of %s, which replaced it", f.uid, d.typ, last)
		}
		ended[f.key] = f.uid
	}
	for _, f := range w.cluster.fleet.history {
		w.judgeEnvironment(f, mine[f.uid])
	}
}

func (c *cluster) environment(uid types.UID) *platform {
	i := slices.IndexFunc(c.fleet.history, func(f *platform) bool { return f.uid == uid })
	if i < 0 {
		return nil
	}
	return c.fleet.history[i]
}

func (w *world) judgeEnvironment(f *platform, mine []delivered) {
	count := map[string]int{}
	open := 0
	version := ""
	for i, d := range mine {
		typ := short(d.typ)
		if count[typ]++; count[deletedEnvironment] > 0 && typ != deletedEnvironment {
			w.fail("%s: %s was told after its end", f.uid, typ)
		}
		switch typ {
		case requestedEnvironment:
			if i > 0 {
				w.fail("%s: %s is its event number %d", f.uid, typ, i+1)
			}
		case createdEnvironment, modifiedEnvironment:
			version = d.version
		case "detected":
			open++
		case "resolved":
			open--
		}
		if open < 0 {
			w.fail("%s: an incident was resolved that was not detected", f.uid)
		}
		if i > 0 && d.time.Before(mine[i-1].time) {
			w.fail("%s: %s has a time before the event that was sent before it", f.uid, d.typ)
		}
	}
	for _, once := range []string{requestedEnvironment, createdEnvironment, deletedEnvironment} {
		if count[once] > 1 {
			w.fail("%s: %d events %s", f.uid, count[once], once)
		}
	}
	if count[modifiedEnvironment] > f.changes {
		w.fail("%s: %d modifications were told, and there were %d", f.uid, count[modifiedEnvironment], f.changes)
	}
	if count[modifiedEnvironment] > 0 && count[createdEnvironment] == 0 && !w.wasBefore(f) {
		w.fail("%s was modified before it was created", f.uid)
	}
	if open != 0 {
		w.fail("%s: %d incidents are open at the end", f.uid, open)
	}
	switch {
	case f.deleted && count[createdEnvironment] > 0 && count[deletedEnvironment] == 0:
		w.fail("%s was created and is gone, but no event says so", f.uid)
	case f.deleted:
		if count[deletedEnvironment] > 0 && count[createdEnvironment] == 0 && !w.wasBefore(f) {
			w.fail("%s was never told to exist, and was told to be gone", f.uid)
		}
	case count[deletedEnvironment] > 0:
		w.fail("%s is there, and was told to be gone", f.uid)
	case w.wasBefore(f):
	case count[requestedEnvironment] == 0 || count[createdEnvironment] == 0:
		w.fail("%s is there, and its events are %v", f.uid, count)
	case version != fmt.Sprintf("v%d", f.runs):
		w.fail("%s runs v%d, and the last event says %s", f.uid, f.runs, version)
	}
}

// wasBefore reports whether an environment existed before the first controller watched its kind.
func (w *world) wasBefore(f *platform) bool {
	o := w.store.Peek("baseline-" + platformMarker)
	return o == nil || f.created.Before(o.CreationTimestamp.Time)
}

// receivedEnvironment checks, when a sink receives it, that what an event says is so now.
func (w *world) receivedEnvironment(d delivered, beneath string) {
	f := w.cluster.environment(d.uid)
	if f == nil || short(d.typ) != deletedEnvironment {
		return
	}
	switch {
	case !f.deleted:
		w.fail("%s is there, and was told to be gone", f.uid)
	case f.beneath && beneath == "":
		w.fail("%s was told to be gone, and what is beneath it still exists", f.uid)
	}
}
