// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// That no definition of a kind is known ends no object that the API server has.
func TestOnlyTheAPIServerSaysThatAnObjectIsGone(t *testing.T) {
	t.Parallel()
	platform := fromYAML(t, "apiVersion: platform.example.com/v1\nkind: Platform\nmetadata: {name: eu, namespace: fleet, uid: uid-eu}")
	other := fromYAML(t, "apiVersion: other.example.com/v1\nkind: Other\nmetadata: {name: eu}")
	for name, c := range map[string]struct {
		api  *api
		gone bool
		want types.UID
	}{
		"there":                  {api: newAPI(platform), want: "uid-eu"},
		"gone":                   {api: newAPI(platform), gone: true},
		"its kind is not served": {api: newAPI(other)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.gone {
				c.api.empty()
			}
			k := c.api.story(t, schema.GroupKind{Group: "platform.example.com", Kind: "Platform"}, Target{}).kind
			k.serve(false, Target{})
			uid, err := k.Live(t.Context(), types.NamespacedName{Namespace: "fleet", Name: "eu"})
			if err != nil || uid != c.want {
				t.Errorf("the API server has %q (%v), want %q", uid, err, c.want)
			}
		})
	}
}
