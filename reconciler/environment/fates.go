// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"slices"

	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// fates returns the resources with their fates, and after them what composites and claims among them consist of,
// however deep it is. Known is what was remembered: its fates are kept, and only objects that were not read before
// are read. Again reads all objects; the fate of one that is gone or cannot be read stays as it was. Complete is
// false if one may be read later.
func (r *reader) fates(ctx context.Context, resources, known []lifecycle.ResourceRef,
	again bool,
) (out []lifecycle.ResourceRef, complete bool) {
	f := following{reader: r, room: lifecycle.MaxResources, final: again}
	out = slices.Clone(resources)
	gone := false
	for i := range out {
		ref := &out[i]
		if was := slices.IndexFunc(known, ref.Same); was >= 0 {
			ref.Fate = known[was].Fate
		}
		if ref.Fate != "" && !again {
			continue
		}
		u, err := r.get(ctx, *ref)
		if err == nil && u != nil {
			var fate lifecycle.Fate
			if fate, err = f.fate(ctx, object{u}); err == nil {
				ref.Fate = fate
			}
		}
		if err != nil && !forbidden(err) {
			logging.FromContext(ctx).Debugw("Could not read what becomes of a resource; trying again", "kind", ref.Kind, "name",
				ref.Name, "error", err)
			return added(added(out, known), f.beneath), false // one that cannot be read is often one of many
		}
		gone = gone || u == nil
	}
	if again && !gone {
		known = nil // all of it was read again
	}
	return added(added(out, known), f.beneath), true
}

// added adds the resources that are not yet among others, as far as they may be remembered.
func added(all, more []lifecycle.ResourceRef) []lifecycle.ResourceRef {
	for _, ref := range more {
		if len(all) < lifecycle.MaxResources && !slices.ContainsFunc(all, ref.Same) {
			all = append(all, ref)
		}
	}
	return all
}

// following follows composites and claims to what they stand for.
type following struct {
	*reader
	// room bounds the objects that are read.
	room int
	// final means that what is not made of anything now will not be.
	final bool
	// beneath is what was found and is to be waited for: not what is to be kept.
	beneath []lifecycle.ResourceRef
}

// fate is what becomes of what an object stands for. A composite stands for what it is made of: if any of that is
// deleted, so is it, and if it is not known of any, nor is it of the composite.
func (f *following) fate(ctx context.Context, o object) (lifecycle.Fate, error) {
	made, err := f.made(ctx, o)
	switch {
	case err != nil:
		return "", err
	case len(made) == 0 && o.composes() && !f.final:
		return "", nil // not yet
	case len(made) == 0:
		return o.fate(), nil
	}
	all := map[lifecycle.Fate]bool{}
	for _, ref := range made {
		if f.room--; f.room < 0 {
			all[""] = true
			break
		}
		u, err := f.get(ctx, ref)
		if err != nil && !forbidden(err) {
			return "", err
		}
		place := len(f.beneath)
		f.beneath = append(f.beneath, ref)
		if u != nil {
			if ref.Fate, err = f.fate(ctx, object{u}); err != nil {
				return "", err
			}
			f.beneath[place].Fate = ref.Fate
		}
		if all[ref.Fate] = true; ref.Fate == lifecycle.FateOrphaned {
			f.beneath = slices.Delete(f.beneath, place, place+1)
		}
	}
	for _, fate := range []lifecycle.Fate{lifecycle.FateDeleted, "", lifecycle.FateOrphaned} {
		if all[fate] {
			return fate, nil
		}
	}
	return lifecycle.FateNone, nil
}

// made returns what an object is made of: the resources of a composite, or the composite of a claim, if that names the
// claim.
func (f *following) made(ctx context.Context, o object) ([]lifecycle.ResourceRef, error) {
	if o.at("spec", "forProvider") != nil {
		return nil, nil
	}
	composite := o.compositeOfClaim()
	if made := o.resources(); len(made) > 0 || composite == nil || o.GetNamespace() == "" {
		return made, nil
	}
	u, err := f.get(ctx, *composite)
	switch {
	case forbidden(err):
		return []lifecycle.ResourceRef{*composite}, nil
	case err != nil:
		return nil, err
	case u == nil || (object{u}).claim().String() != o.GetNamespace()+"/"+o.GetName():
		return nil, nil
	}
	return []lifecycle.ResourceRef{*composite}, nil
}
