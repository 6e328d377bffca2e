// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"strings"
	"testing"
)

// objects returns some of Service shop. Each line is a version, a kind, how its event ends, and what it shows.
func objects(lines ...string) []Object {
	var out []Object
	for _, line := range lines {
		f := strings.Fields(line)
		meta, more := fmt.Sprintf(`"metadata": {"uid": %q, "resourceVersion": %q, "generation": 1`, f[1], f[0]), ""
		switch ready := `"status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]}`; f[1] {
		case "Service":
			meta = strings.Replace(meta, "Service", "u", 1)
			if len(f) > 3 {
				more = ready
			}
		case "Revision":
			more = ready
		case "Route":
			meta += `, "ownerReferences": [{"uid": "u", "controller": true}]`
			var a, b int
			_, _ = fmt.Sscanf(f[3], "a=%d,b=%d", &a, &b) // a test's own text
			in := "True"
			if len(f) > 4 {
				in = "Unknown"
			}
			more = fmt.Sprintf(`"status": {"observedGeneration": 1, "traffic": [{"revisionName": "a", "percent": %d}, {"revisionName": "b", "percent": %d}],
				"conditions": [{"type": "IngressReady", "status": %q}, {"type": "AllTrafficAssigned", "status": "True"}]}`, a, b, in)
		}
		if more != "" {
			more = "," + more
		}
		out = append(out, Object{Type: "dev.knative.apiserver.resource." + f[2], Body: fmt.Appendf(nil, `{"kind": %q, %s} %s}`, f[1], meta, more)})
	}
	return out
}

func TestListen(t *testing.T) {
	t.Parallel()
	all := []string{
		"1 Service add", "2 Revision update", "3 Route update a=100,b=0", "4 Service update ready",
		"5 Route update a=90,b=10", "6 Route update a=50,b=50", "7 Route update a=0,b=100",
	}
	gone := shop()
	gone.Gone = at(40)
	for name, c := range map[string]struct {
		life Life
		came []string
		want string // counts of lost, nothing new, not in force, doubled, disordered
	}{
		"each fact once":      {shop(), all, "0 0 0 0 0"},
		"nothing":             {shop(), nil, "6 0 0 0 0"},
		"a split is missing":  {shop(), append(all[:5:5], all[6]), "1 0 0 0 0"},
		"not yet in force":    {shop(), append(all[:5:5], "8 Route update a=50,b=50 early", "9 Route update a=50,b=50", "10 Route update a=0,b=100"), "0 1 1 0 0"},
		"again":               {shop(), append(all[:7:7], all[6], "8 Route update a=0,b=100"), "0 2 0 1 0"},
		"an older one":        {shop(), append(all[:7:7], "5 Route update a=90,b=10"), "0 1 0 0 1"},
		"removed":             {gone, append(all[:7:7], "9 Service delete ready"), "0 0 0 0 0"},
		"a removal is missed": {gone, all, "1 0 0 0 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, err := Listen([]Life{c.life}, objects(c.came...))
			got := fmt.Sprint(len(h.Lost), h.NothingNew, h.NotInForce, h.Doubled, h.Disordered)
			if err != nil || got != c.want || h.Events != len(c.came) {
				t.Errorf("got %s, want %s: %+v, %v", got, c.want, h, err)
			}
		})
	}
	for _, body := range []string{`{`, `{"kind": "Route", "metadata": {"resourceVersion": "x"}}`} {
		if _, err := Listen(nil, []Object{{Body: []byte(body)}}); err == nil {
			t.Errorf("%s is taken", body)
		}
	}
}
