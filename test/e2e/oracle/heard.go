// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
)

// Object is a Service, Route or Revision that was sent as it is, in the order of arrival.
type Object struct {
	// Type is that of its event, such as dev.knative.apiserver.resource.update.
	Type string
	Body []byte
}

// Heard is what came of what happened.
type Heard struct {
	Events int
	// Lost are facts that no event shows.
	Lost []string
	// NothingNew are events that show no fact that none before has shown. NotInForce are those that tell of traffic that
	// is not in force, Doubled those that show the same version of an object again, and Disordered those that show an older
	// version than one before.
	NothingNew, NotInForce, Doubled, Disordered int
}

// Listen returns what a receiver of objects hears if it remembers all of them: only then does it know what is new.
func Listen(lives []Life, objects []Object) (h Heard, err error) {
	told, last := map[string]bool{}, map[types.UID]uint64{}
	split := map[types.UID]Split{}
	for i, o := range objects {
		var of metav1.PartialObjectMetadata
		if err := json.Unmarshal(o.Body, &of); err != nil {
			return h, fmt.Errorf("event %d has no object: %w", i+1, err)
		}
		// Versions are numbers that grow.
		version, err := strconv.ParseUint(of.ResourceVersion, 10, 64)
		if err != nil {
			return h, fmt.Errorf("the version of the object in event %d is not a number: %w", i+1, err)
		}
		switch before := last[of.UID]; {
		case version < before:
			h.Disordered++
		case version == before:
			h.Doubled++
		default:
			last[of.UID] = version
		}
		shown, inForce, err := shows(of.Kind, o, split)
		if err != nil {
			return h, fmt.Errorf("event %d: %w", i+1, err)
		}
		if !inForce {
			h.NotInForce++
		}
		news := false
		for _, fact := range shown {
			news = news || !told[fact]
			told[fact] = true
		}
		h.Events++
		if !news {
			h.NothingNew++
		}
	}
	for _, l := range lives {
		for _, fact := range l.facts() {
			if !told[fact] {
				h.Lost = append(h.Lost, fmt.Sprintf("%s: %s", l.Name.Name, fact))
			}
		}
	}
	return h, nil
}

// shows returns the facts that an object shows, and false if it tells of traffic that is not in force. split has the
// last one that was shown, of each Service.
func shows(kind string, o Object, split map[types.UID]Split) (facts []string, inForce bool, err error) {
	switch kind {
	case "Service":
		var s servingv1.Service
		if err = json.Unmarshal(o.Body, &s); s.IsReady() {
			facts = append(facts, fmt.Sprint("ready ", s.UID))
		}
		facts = append(facts, fmt.Sprint("created ", s.UID))
		if strings.HasSuffix(o.Type, ".delete") {
			facts = append(facts, fmt.Sprint("removed ", s.UID))
		}
	case "Revision":
		var r servingv1.Revision
		if err = json.Unmarshal(o.Body, &r); r.IsReady() {
			facts = append(facts, fmt.Sprint("ready ", r.UID))
		}
	case "Route":
		var r servingv1.Route
		err = json.Unmarshal(o.Body, &r)
		now, owner := effective(&r), metav1.GetControllerOf(&r)
		switch {
		case now == "":
			return nil, len(r.Status.Traffic) == 0, err
		case owner != nil && split[owner.UID] != now:
			split[owner.UID] = now
			facts = append(facts, fmt.Sprintf("%s of %s", now, owner.UID))
		}
	}
	return facts, true, err
}

// facts are what an object can show of a Service.
func (l Life) facts() []string {
	out := []string{fmt.Sprint("created ", l.UID)}
	if !l.Ready.IsZero() {
		out = append(out, fmt.Sprint("ready ", l.UID))
	}
	if !l.Gone.IsZero() {
		out = append(out, fmt.Sprint("removed ", l.UID))
	}
	for _, m := range l.Splits {
		out = append(out, fmt.Sprintf("%s of %s", m.Split, l.UID))
	}
	return out
}
