// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"

	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// compare starts and stops watches. A kind that cannot be looked up keeps what it has.
func (w *Watch) compare(ctx context.Context) error {
	chosen, failed, err := w.chosen(ctx)
	w.mu.Lock()
	for of := range chosen { // all of them before the first is watched: an object of one may belong to one of another
		w.selected[of] = true
	}
	for in, f := range failed {
		if before, ok := w.failed[in]; ok {
			f.since = before.since
			failed[in] = f
		}
	}
	w.failed = failed
	w.mu.Unlock()
	for of, at := range chosen {
		k := w.ensure(ctx, of)
		if k.stop != nil && k.at() == at {
			continue
		}
		w.end(k)
		k.serve(true, at)
		w.begin(ctx, k, at)
	}
	verdicts, unknown := w.others(ctx, chosen)
	for _, k := range w.all() {
		if _, is := chosen[k.of]; is {
			continue
		}
		_, unsure := failed[k.of.Group]
		switch there, known := verdicts[k.of]; {
		case !known, there && unsure: // what was not found may only not have been looked up
		case there:
			w.mu.Lock()
			delete(w.selected, k.of)
			w.mu.Unlock()
			w.end(k)
			w.report(k, NotChosen)
		case k.Served():
			w.end(k)
			k.serve(false, Target{})
			w.report(k, Absent)
			k.Stop() // its objects are gone with it
		}
	}
	return errors.Join(err, unknown)
}

// chosen returns the kinds that are chosen and exist, and the groups of which one may be that could not be looked up.
func (w *Watch) chosen(ctx context.Context) (out map[schema.GroupKind]Target, failed map[string]failure, err error) {
	byName := map[string][]schema.GroupKind{}
	for _, of := range w.Settings.EnvironmentKinds() {
		byName[of.Group] = append(byName[of.Group], of)
	}
	out, failed = map[schema.GroupKind]Target{}, map[string]failure{}
	var errs []error
	definitions, groups := w.Presence.Definitions(), map[string]found{}
	maps.DeleteFunc(w.resolved, func(name string, _ resolution) bool { return definitions[name].Version == "" })
	for name, d := range definitions {
		_, in, _ := strings.Cut(name, ".")
		if d.Label != "true" && len(byName[in]) == 0 {
			continue
		}
		r, err := w.resolve(ctx, name, d, groups)
		if err != nil {
			errs, failed[in] = append(errs, err), failure{served: groups[in].served, since: w.Now()}
			continue
		}
		if d.Label == "true" || slices.Contains(byName[in], r.of) {
			out[r.of] = r.target
		}
	}
	return out, failed, errors.Join(errs...)
}

// Installed returns the kinds of environments that exist: of those that are chosen by name, and the definitions that
// are chosen by their label.
func Installed(ctx context.Context, api discovery.DiscoveryInterface, definitions metadata.Interface,
	byName []schema.GroupKind,
) (names []string, err error) {
	r, groups := &reader{discovery: api}, map[string]group{}
	for _, of := range byName {
		served, asked := groups[of.Group]
		if !asked {
			if served, err = r.served(ctx, of.Group); err != nil {
				return nil, err
			}
			groups[of.Group] = served
		}
		if served.has(func(r metav1.APIResource) bool { return r.Kind == of.Kind }) {
			names = append(names, of.String())
		}
	}
	labelled, err := definitions.Resource(observer.Definitions).List(ctx, metav1.ListOptions{LabelSelector: Label + "=true"})
	if err != nil {
		return nil, fmt.Errorf("listing the CustomResourceDefinitions with label %s: %w", Label, err)
	}
	for i := range labelled.Items {
		names = append(names, labelled.Items[i].Name)
	}
	return names, nil
}

// resolution is what a definition defines.
type resolution struct {
	version string
	at      time.Time
	of      schema.GroupKind
	target  Target
}

// resolve returns what a definition defines, in the version that the API server prefers of those that can be looked
// up. It asks for each group at most once.
func (w *Watch) resolve(ctx context.Context, name string, d observer.Definition, groups map[string]found) (resolution,
	error,
) {
	known, before := w.resolved[name]
	same := before && known.version == d.Version
	if same && w.Now().Sub(known.at) < resolvedFor {
		return known, nil
	}
	plural, in, _ := strings.Cut(name, ".")
	f := w.lookUp(ctx, in, groups)
	resource, version, ok := f.served.find(func(r metav1.APIResource) bool { return r.Name == plural })
	switch {
	case f.err != nil && same: // it still defines the same, and what cannot be looked up may still be preferred
		return known, nil
	case f.err != nil && (!ok || before && version.WithResource(plural) != known.target.Resource):
		return resolution{}, f.err
	case !ok:
		return resolution{}, errNotServedYet
	}
	r := resolution{version: d.Version, at: w.Now(), of: schema.GroupKind{Group: in, Kind: resource.Kind}, target: Target{
		Resource: version.WithResource(plural), Namespaced: resource.Namespaced,
		Composite: d.Controller == "CompositeResourceDefinition",
	}}
	w.resolved[name] = r
	return r, nil
}

// others returns, of the kinds that are chosen by name, are watched or have entries in the ledger, and that are not
// among the chosen ones, whether the API server has them. Those are missing of which this is not certain: one group
// that cannot be looked up says nothing about the others.
func (w *Watch) others(ctx context.Context, chosen map[schema.GroupKind]Target) (map[schema.GroupKind]bool, error) {
	asked := map[schema.GroupKind]bool{}
	for _, of := range w.Settings.EnvironmentKinds() {
		asked[of] = true
	}
	for _, key := range w.Ledger.Keys() {
		if of := (schema.GroupKind{Group: key.Group, Kind: key.Kind}); of.Group != "" && !foreign(of) {
			asked[of] = true
		}
	}
	for _, k := range w.all() {
		asked[k.of] = true
	}
	out, groups := map[schema.GroupKind]bool{}, map[string]found{}
	definitions := pluralsByGroup(w.Presence.Definitions())
	var errs []error
	for of := range asked {
		if _, is := chosen[of]; is {
			continue
		}
		var f found
		if len(definitions[of.Group]) > 0 { // otherwise, there is no need to ask
			f = w.lookUp(ctx, of.Group, groups)
		}
		switch {
		case f.served.has(func(r metav1.APIResource) bool { return r.Kind == of.Kind }):
			out[of] = true
		case f.err != nil:
			errs = append(errs, f.err)
		case w.awaited(of, definitions[of.Group], f.served):
			errs = append(errs, errNotServedYet)
		default:
			out[of] = false
			w.ensure(ctx, of)
		}
	}
	return out, errors.Join(errs...)
}

func pluralsByGroup(definitions map[string]observer.Definition) map[string][]string {
	out := map[string][]string{}
	for name := range definitions {
		plural, in, _ := strings.Cut(name, ".")
		out[in] = append(out[in], plural)
	}
	return out
}

// awaited reports whether one of the definitions in the group may be that of a kind, and is not served yet. If the
// plural name of the kind is not known, each counts that begins like the kind.
func (w *Watch) awaited(of schema.GroupKind, plurals []string, served group) bool {
	stem := strings.ToLower(of.Kind)
	is := func(plural string) bool { return strings.HasPrefix(plural, stem[:max(0, len(stem)-1)]) }
	w.mu.Lock()
	k, ok := w.kinds[of]
	w.mu.Unlock()
	if ok {
		if known := k.at().Resource.Resource; known != "" {
			is = func(plural string) bool { return plural == known }
		}
	}
	return slices.ContainsFunc(plurals, func(plural string) bool {
		return is(plural) && !served.has(func(r metav1.APIResource) bool { return r.Name == plural })
	})
}

// foreign reports whether a kind in the ledger is not an environment's.
func foreign(of schema.GroupKind) bool {
	return of.Group == "serving.knative.dev" || strings.HasSuffix(of.Group, "knative-cdevents.dev")
}
