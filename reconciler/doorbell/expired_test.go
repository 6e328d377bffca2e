// SPDX-License-Identifier: Apache-2.0

package doorbell

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// expired: the API server no longer has the changes, so it answers 410.
func expired(t *testing.T, w *world, ns string) {
	api, core := w.between(t), newCoreServer(t)
	old := w.add(Services, ns, "old").GetResourceVersion()
	for i := range 7 {
		w.add(Services, ns, "s"+strconv.Itoa(i))
	}
	w.settled(t, api, core, ns)
	// An API server that was restarted has no changes from before, and etcd none from before a compaction: to the
	// doorbell, both look like this.
	w.setAccount(t, ns, func(a *account) { a.Positions[Services.String()] = old })
	var answers atomic.Int32
	api.setDisturb(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("resourceVersion") != old || !strings.Contains(r.URL.Path, "/services") {
			return false
		}
		answers.Add(1)
		_, _ = fmt.Fprintf(rw, `{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version: %s"}}`+"\n", old)
		return true
	})
	d := w.start(t, api, core, ns, smallPages)
	eventually(t, "all that is newer is rung, and what is deleted looked for", func() bool {
		for i := range 7 {
			if core.got("Service "+ns+"/s"+strconv.Itoa(i)) == 0 {
				return false
			}
		}
		return core.sweptAfter("Service "+ns+"/s0") && d.quiet()
	})
	if core.got("Service "+ns+"/old") != 0 {
		t.Error("what was answered already is rung")
	}
	if answers.Load() != 1 {
		t.Errorf("%d watches from there", answers.Load())
	}
	d.stop()

	// What the API server itself says of the first resourceVersion that ever was.
	core.forget()
	api.setDisturb(nil)
	w.setAccount(t, ns, func(a *account) { a.Positions[Services.String()] = "1" })
	d = w.start(t, api, core, ns, smallPages)
	eventually(t, "all is rung", func() bool { return core.got("Service "+ns+"/old") > 0 && d.quiet() })
}

func smallPages(d *Doorbell) {
	for _, w := range d.watchers {
		w.pageSize = 3
	}
}

// listExpired: a list takes so long that its rest is no longer available. It is not begun again, because with a slow
// core it would never end.
func listExpired(t *testing.T, w *world, ns string) {
	api, core := w.between(t), newCoreServer(t)
	for i := range 9 {
		w.add(Services, ns, "s"+strconv.Itoa(i))
	}
	var once sync.Once
	var changed string
	api.setDisturb(func(rw http.ResponseWriter, r *http.Request) bool {
		rest := r.URL.Query().Get("continue")
		if rest == "" || !strings.Contains(r.URL.Path, "/services") {
			return false
		}
		did := false
		once.Do(func() {
			// A Service of an earlier page changes, and one of a later page appears.
			changed = "Service " + ns + "/s0"
			w.annotate(Services, ns, "s0", "note", "changed")
			w.add(Services, ns, "s9")
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(http.StatusGone)
			_ = json.NewEncoder(rw).Encode(metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, ListMeta: metav1.ListMeta{Continue: rest},
				Status: "Failure", Reason: metav1.StatusReasonExpired, Code: http.StatusGone, Message: "the provided continue parameter is too old",
			})
			did = true
		})
		return did
	})
	d := w.start(t, api, core, ns, smallPages)
	eventually(t, "all is rung", func() bool {
		for i := range 10 {
			if core.got("Service "+ns+"/s"+strconv.Itoa(i)) == 0 {
				return false
			}
		}
		return changed != "" && d.quiet()
	})
	if core.got(changed) < 2 {
		t.Error("a change during the list was not rung")
	}
	if got := d.watchers[0].lists.Load(); got != 1 {
		t.Errorf("%d lists, want 1", got)
	}
}

// backInTime: a backup of etcd was restored, so that what is stored is from a future that never was.
func backInTime(t *testing.T, w *world, ns string) {
	api, core := w.between(t), newCoreServer(t)
	w.add(Services, ns, "cart")
	w.settled(t, api, core, ns)
	const future = "1000000000000"
	w.setAccount(t, ns, func(a *account) { a.Positions[Services.String()] = future })
	d := w.start(t, api, core, ns)
	eventually(t, "everything is rung", func() bool { return core.got("Service "+ns+"/cart") > 0 && d.quiet() })
	w.annotate(Services, ns, "cart", "note", "changed")
	eventually(t, "a change is rung", func() bool { return core.got("Service "+ns+"/cart") > 1 })
	eventually(t, "the future is forgotten", func() bool { return newer(future, w.account(t, ns).Positions[Services.String()]) })
}

// copied: the Lease was restored into another cluster, whose resourceVersions are others.
func copied(t *testing.T, w *world, ns string) {
	api, core := w.between(t), newCoreServer(t)
	w.add(Services, ns, "cart")
	w.settled(t, api, core, ns)
	w.setAccount(t, ns, func(a *account) { a.UID = "that-of-the-original" })
	d := w.start(t, api, core, ns)
	eventually(t, "everything is rung", func() bool { return core.got("Service "+ns+"/cart") > 0 && d.quiet() })
	if a := w.account(t, ns); a.UID == "that-of-the-original" {
		t.Error("the account is still the other cluster's")
	}
}
