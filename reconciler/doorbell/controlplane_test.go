// SPDX-License-Identifier: Apache-2.0

package doorbell

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// TestRealAPIServer runs doorbells against one API server, because starting it takes longest. Each part has a namespace
// and a Lease of its own.
func TestRealAPIServer(t *testing.T) {
	w := newWorld(t)
	before := runtime.NumGoroutine()
	t.Run("kinds that appear later", func(t *testing.T) { appearing(t, w) }) // first: it installs Serving
	for name, part := range map[string]func(*testing.T, *world, string){
		"keys": keys, "wake": waking, "lease": holds, "restart": restart, "changes-expired": expired, "list-expired": listExpired, "back-in-time": backInTime,
		"copied": copied, "core-down": coreDown, "interrupted": interrupted, "two": two, "random": random, "hostile": hostile, "late": late,
	} {
		t.Run(name, func(t *testing.T) {
			w.namespace(name)
			part(t, w, name)
		})
	}
	eventually(t, "no goroutine is left of the doorbells", func() bool { return runtime.NumGoroutine() < before+20 })
}

func TestAnnotationsAreThoseOfTheAPI(t *testing.T) {
	if wakeAnnotation != v1alpha1.WakeAnnotation || forgetAnnotation != v1alpha1.ForgetAnnotation {
		t.Error("the doorbell reads other annotations than the ledger has")
	}
	rang := time.Date(2026, time.January, 2, 15, 4, 5, 6, time.UTC)
	b := &book{ringer: &ringer{lastAnswered: rang}}
	text, err := json.Marshal(account{UID: "1", Positions: positions{}, LastRing: b.lastRing()})
	if got := v1alpha1.LastRing(map[string]string{answeredAnnotation: string(text)}); err != nil || !got.Equal(rang.Truncate(time.Second)) {
		t.Errorf("the plugin would read %s of %s, %v", got, text, err)
	}
	if Defaults.Lease != v1alpha1.DoorbellLease || !v1alpha1.LastRing(nil).IsZero() {
		t.Error("the plugin looks for another Lease")
	}
}

func appearing(t *testing.T, w *world) {
	api, core := w.between(t), newCoreServer(t)
	d := w.start(t, api, core, "appearing")
	eventually(t, "it asks for Services again", func() bool { return api.count("GET", "/services?") > 2 })
	if d.watchesAll() {
		t.Error("it watches what is not installed")
	}
	w.add(Sources, system, "early")
	eventually(t, "what is installed is rung", func() bool { return core.got("CDEventSource "+system+"/early") > 0 })
	if err := w.InstallServing(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.InstallCustomRuns(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.add(Services, "default", "first")
	eventually(t, "a Service is rung", func() bool { return core.got("Service default/first") > 0 && d.quiet() })
}

func keys(t *testing.T, w *world, ns string) {
	api, core := w.between(t), newCoreServer(t)
	d := w.start(t, api, core, ns)
	eventually(t, "it is quiet", d.quiet)
	if core.got("sweep") == 0 {
		t.Error("no sweep at the start")
	}
	rung := func(what, key string, n int) {
		t.Helper()
		eventually(t, what+" is rung as "+key, func() bool { return core.got(key) >= n })
	}
	service := "Service " + ns + "/cart"
	w.add(Services, ns, "cart")
	rung("a Service", service, 1)
	if got := core.last(service); got != "add "+service {
		t.Errorf("the first ring is %q", got)
	}
	w.add(Routes, ns, "cart", ownedBy("cart"))
	rung("a Route", service, 2)
	w.add(Revisions, ns, "cart-00001", ofService("cart"))
	rung("a Revision", service, 3)
	w.remove(Revisions, ns, "cart-00001")
	rung("a deleted Revision", service, 4)
	if got := core.last(service); got != "update "+service {
		t.Errorf("the ring about a deleted Revision is %q: its Service is not deleted", got)
	}
	w.add(DomainMappings, ns, "shop.example.com")
	rung("a DomainMapping", "DomainMapping "+ns+"/shop.example.com", 1)
	w.add(Sources, ns, "events")
	rung("a source", "CDEventSource "+ns+"/events", 1)
	rung("a namespace", "Namespace "+ns, 1)
	w.add(Gates, ns, "cart")
	rung("a gate", "CanaryGate "+ns+"/cart", 1)
	w.annotate(Gates, ns, "cart", "note", "more")
	rung("a changed gate", "CanaryGate "+ns+"/cart", 2)
	w.add(CustomRuns, ns, "run")
	rung("a CustomRun", "CustomRun "+ns+"/run", 1)
	w.annotate(CustomRuns, ns, "run", "note", "more")
	w.remove(Services, ns, "cart")
	eventually(t, "a deletion is rung", func() bool { return core.last(service) == "delete "+service })

	// What the core writes itself rings nothing.
	subject := "service-" + ns
	w.add(Subjects, system, subject)
	w.annotate(Subjects, system, subject, "note", "more")
	w.add(Routes, ns, "standalone")
	w.add(Revisions, ns, "standalone-00001")
	w.add(Subjects, ns, "elsewhere") // not the ledger's namespace
	// Neither does the core's own Service: a ring would start it whenever it has scaled to zero.
	own := "core-of-" + ns
	of := func(o *unstructured.Unstructured) {
		o.SetLabels(map[string]string{productLabel: product, serviceLabel: own})
		ownedBy(own)(o)
	}
	for _, kind := range []*Kind{Services, Routes, Revisions} {
		w.add(kind, system, own, of)
		w.annotate(kind, system, own, "scaled", "0")
	}
	never(t, "something was rung that is nothing to report", func() bool {
		all := core.all()
		return strings.Contains(all, subject) || strings.Contains(all, "standalone") || strings.Contains(all, "elsewhere") ||
			strings.Contains(all, own)
	})
	w.add(Services, system, "of-a-user-"+ns)
	rung("a user's Service in the same namespace", "Service "+system+"/of-a-user-"+ns, 1)
	if n := core.got("CustomRun " + ns + "/run"); n != 1 {
		t.Errorf("a CustomRun is rung %d times, want once, when it is new", n)
	}
	w.annotate(Subjects, system, subject, v1alpha1.ForgetAnnotation, "true")
	rung("what is to be forgotten", "CDEventSubject "+system+"/"+subject, 1)
	w.remove(Subjects, system, subject)
	eventually(t, "a deleted entry is rung", func() bool {
		return core.last("/"+subject) == "delete CDEventSubject "+system+"/"+subject
	})

	eventually(t, "all answers have arrived", func() bool { return d.ringer.Answered(d.ringer.Mark()) })
	response := httptest.NewRecorder()
	d.Handler().ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		"cdevents_doorbell_rings_total{result=\"answered\"} ", "cdevents_doorbell_waiting_keys 0\n", "cdevents_doorbell_last_answered_timestamp_seconds ",
		"cdevents_doorbell_oldest_unanswered_seconds 0\n", "cdevents_doorbell_core_down 0\n", `cdevents_doorbell_watching{resource="services.serving.knative.dev"} 1`,
		`cdevents_doorbell_watch_restarts_total{resource="namespaces"} 0`, "# TYPE cdevents_doorbell_rings_total counter\n",
	} {
		if !strings.Contains(response.Body.String(), want) {
			t.Errorf("/metrics does not contain %q:\n%s", want, response.Body)
		}
	}
	health := httptest.NewRecorder()
	d.Handler().ServeHTTP(health, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", nil))
	if health.Code != http.StatusOK {
		t.Errorf("/healthz answers %d", health.Code)
	}
}

func waking(t *testing.T, w *world, ns string) {
	api, core := w.between(t), newCoreServer(t)
	d := w.start(t, api, core, ns)
	eventually(t, "it is quiet", d.quiet)
	key := "CDEventSubject " + system + "/service-" + ns
	w.add(Subjects, system, "service-"+ns)
	at := time.Now().Add(2 * time.Second)
	w.annotate(Subjects, system, "service-"+ns, v1alpha1.WakeAnnotation, at.Format(time.RFC3339))
	eventually(t, "it is rung at its time", func() bool { return core.got(key) == 1 })
	if early := at.Truncate(time.Second); time.Now().Before(early) {
		t.Errorf("rung before %v", early)
	}
	// The time is known again after a restart, although nothing changed since.
	w.annotate(Subjects, system, "service-"+ns, v1alpha1.WakeAnnotation, time.Now().Add(5*time.Second).Format(time.RFC3339))
	eventually(t, "it is quiet", d.quiet)
	d.stop()
	core.forget()
	w.start(t, api, core, ns)
	eventually(t, "it is rung at its time", func() bool { return core.got(key) == 1 })
	w.annotate(Subjects, system, "service-"+ns, v1alpha1.WakeAnnotation, "")
}

// holds: the Lease says that a doorbell runs and its core answers, until it ends.
func holds(t *testing.T, w *world, ns string) {
	api, core := w.between(t), newCoreServer(t)
	held := func() coordinationv1.LeaseSpec {
		l, err := w.kube.CoordinationV1().Leases(system).Get(t.Context(), ns, metav1.GetOptions{})
		if err != nil || l.Spec.HolderIdentity == nil {
			return coordinationv1.LeaseSpec{HolderIdentity: new(string)}
		}
		return l.Spec
	}
	d := w.start(t, api, core, ns, func(d *Doorbell) { d.ringer.patience = 300 * time.Millisecond })
	eventually(t, "it holds the Lease", func() bool { return *held().HolderIdentity != "" && d.quiet() })
	first, known := held(), w.account(t, ns)
	if first.RenewTime == nil || time.Since(first.RenewTime.Time) > time.Minute || *first.LeaseDurationSeconds != 4 {
		t.Errorf("the Lease says %+v", first)
	}
	eventually(t, "it renews it", func() bool { return held().RenewTime.After(first.RenewTime.Time) })
	core.setAnswer(func(string) int { return http.StatusServiceUnavailable })
	w.add(Services, ns, "cart")
	eventually(t, "it gives the Lease up while the core does not answer", func() bool { return *held().HolderIdentity == "" })
	core.setAnswer(func(string) int { return http.StatusAccepted })
	eventually(t, "it holds the Lease again", func() bool { return *held().HolderIdentity != "" && d.quiet() })
	d.stop()
	if after := held(); *after.HolderIdentity != "" {
		t.Errorf("after its end, it is held by %q", *after.HolderIdentity)
	}
	for resource, version := range known.Positions {
		if now := w.account(t, ns).Positions[resource]; newer(version, now) {
			t.Errorf("%s went back from %s to %s", resource, version, now)
		}
	}
}

// restart: what changed while no doorbell ran is rung, and nothing else.
func restart(t *testing.T, w *world, ns string) {
	api, core := w.between(t), newCoreServer(t)
	d := w.start(t, api, core, ns)
	for i := range 5 {
		w.add(Services, ns, "s"+strconv.Itoa(i))
	}
	eventually(t, "all are rung", func() bool { return core.got("Service "+ns+"/s4") > 0 && d.quiet() })
	d.stop()
	core.forget()
	lists := api.count("GET", "/services?", "limit=100")

	w.annotate(Services, ns, "s1", "note", "changed")
	w.remove(Services, ns, "s2")
	w.add(Services, ns, "s5")
	d = w.start(t, api, core, ns)
	eventually(t, "what changed is rung", func() bool {
		return core.got("Service "+ns+"/s1") == 1 && core.last("/s2") == "delete Service "+ns+"/s2" && core.got("Service "+ns+"/s5") == 1
	})
	eventually(t, "it is quiet", d.quiet)
	if core.got("Service "+ns+"/s0") != 0 || api.count("GET", "/services?", "limit=100") != lists {
		t.Errorf("it did not continue where the last one ended: %s", core.all())
	}
}

// setAccount changes what the Lease says is answered.
func (w *world) setAccount(t *testing.T, lease string, change func(*account)) {
	t.Helper()
	l, err := w.kube.CoordinationV1().Leases(system).Get(t.Context(), lease, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var a account
	if err := json.Unmarshal([]byte(l.Annotations[answeredAnnotation]), &a); err != nil {
		t.Fatal(err)
	}
	change(&a)
	l.Annotations[answeredAnnotation] = string(must[[]byte](t)(json.Marshal(a)))
	if _, err := w.kube.CoordinationV1().Leases(system).Update(t.Context(), l, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) account(t *testing.T, lease string) (a account) {
	t.Helper()
	l, err := w.kube.CoordinationV1().Leases(system).Get(t.Context(), lease, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(l.Annotations[answeredAnnotation]), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// settled starts a doorbell and stops it when everything is answered.
func (w *world) settled(t *testing.T, api *between, core *coreServer, lease string) {
	t.Helper()
	d := w.start(t, api, core, lease)
	eventually(t, "it is quiet", d.quiet)
	d.stop()
	core.forget()
}

// coreDown: changes while the core is down are rung when it is up again, even by another doorbell.
func coreDown(t *testing.T, w *world, ns string) {
	api, core := w.between(t), newCoreServer(t)
	d := w.start(t, api, core, ns)
	eventually(t, "it is quiet", d.quiet)
	core.forget()
	var refused atomic.Int32
	down := func(string) int { refused.Add(1); return http.StatusServiceUnavailable }
	core.setAnswer(down)
	for i := range 30 {
		w.add(Services, ns, "s"+strconv.Itoa(i))
	}
	time.Sleep(3 * time.Second)
	if n := refused.Load(); n < tripAfter || n > 3*tripAfter {
		t.Errorf("%d rings while the core is down", n)
	}
	before := w.account(t, ns)
	d.stop()
	if after := w.account(t, ns); after.Positions[Services.String()] != before.Positions[Services.String()] {
		t.Error("a change without an answer is stored as answered")
	}
	d = w.start(t, api, core, ns)
	time.Sleep(time.Second)
	core.setAnswer(func(string) int { return http.StatusAccepted })
	eventually(t, "all are rung", func() bool {
		for i := range 30 {
			if core.got("Service "+ns+"/s"+strconv.Itoa(i)) == 0 {
				return false
			}
		}
		return d.quiet()
	})
}

// interrupted: the connection to the API server breaks, and it answers 503 and 429 for a while.
func interrupted(t *testing.T, w *world, ns string) {
	api, core := w.between(t), newCoreServer(t)
	d := w.start(t, api, core, ns)
	eventually(t, "it is quiet", d.quiet)
	until := time.Now().Add(3 * time.Second)
	api.setDisturb(func(rw http.ResponseWriter, _ *http.Request) bool {
		if time.Now().After(until) {
			return false
		}
		rw.Header().Set("Retry-After", "1")
		rw.WriteHeader([]int{429, 503}[rand.N(2)])
		return true
	})
	api.CloseClientConnections()
	w.add(Services, ns, "cart")
	w.remove(Services, ns, "cart")
	key := "Service " + ns + "/cart"
	eventually(t, "the deletion is rung", func() bool { return core.last(key) == "delete "+key && d.quiet() })
	if d.watchers[0].lists.Load() > 1 || d.watchers[0].restarts.Load() == 0 {
		t.Error("it must continue without a list")
	}
}

// two doorbells store in the same Lease.
func two(t *testing.T, w *world, ns string) {
	api, core := w.between(t), newCoreServer(t)
	a, b := w.start(t, api, core, ns), w.start(t, api, core, ns)
	for i := range 40 {
		w.add(Services, ns, "s"+strconv.Itoa(i))
	}
	eventually(t, "both are quiet", func() bool { return a.quiet() && b.quiet() && core.got("Service "+ns+"/s39") > 0 })
	a.stop()
	b.stop()
	core.forget()
	d := w.start(t, api, core, ns)
	eventually(t, "a third one is quiet", d.quiet)
	if text := core.all(); strings.Contains(text, "Service ") {
		t.Errorf("it rings again what they have: %s", text)
	}
}

// seen is what a core that reads live finds of a Service.
func (w *world) seen(t *testing.T, ns, name string) string {
	text := ""
	for kind, object := range map[*Kind]string{Services: name, Routes: name, Revisions: name + "-00001"} {
		o, err := w.of(kind, ns).Get(t.Context(), object, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			t.Errorf("reading %s %s: %v", kind, object, err)
		default:
			text += kind.Resource[:2] + o.GetResourceVersion() + " "
		}
	}
	fields := strings.Fields(text)
	return fmt.Sprint(len(fields), sum(fields))
}

// sum does not depend on the order.
func sum(all []string) (n int) {
	for _, s := range all {
		v, _ := strconv.Atoi(s[2:])
		n += v * (1 + int(s[0]) + 3*int(s[1]))
	}
	return n
}

// random changes objects at random, with doorbells that are stopped, a core that fails, and connections that break. In
// the end, the last ring of each key must have been after its last change: a core that reads then sees how it is now.
func random(t *testing.T, w *world, ns string) { randomly(t, w, ns, w.between(t), 250, 60) }

// randomly makes so many changes, and stops the doorbell after so many.
func randomly(t *testing.T, w *world, ns string, api *between, changes, stops int) {
	core := newCoreServer(t)
	var mu sync.Mutex
	read, removed := map[string]string{}, map[string]bool{}
	const services = 8
	failed := map[string]int{}
	core.setAnswer(func(key string) int {
		mu.Lock() // so that what is read first is stored first
		defer mu.Unlock()
		if name, ours := strings.CutPrefix(key, "Service "+ns+"/"); ours {
			read[name] = w.seen(t, ns, name)
		}
		if key == Sweep.String() { // for which the core reads everything; but a change that is no deletion must be rung itself
			for name := range removed {
				read[name] = w.seen(t, ns, name)
			}
		}
		// After seven failures, a ring waits for two minutes, which is longer than this test does.
		if rand.N(4) == 0 && failed[key] < 4 {
			failed[key]++
			return http.StatusInternalServerError
		}
		failed[key] = 0
		return http.StatusAccepted
	})
	d := w.start(t, api, core, ns, smallPages)
	exists := map[string]bool{}
	change := func(kind *Kind, name, object string) {
		id := kind.Resource + object
		remove := exists[id] && rand.N(4) == 0
		mu.Lock()
		if delete(removed, name); remove {
			removed[name] = true
		}
		mu.Unlock()
		switch {
		case !exists[id] && kind == Services:
			w.add(kind, ns, object)
		case !exists[id] && kind == Routes:
			w.add(kind, ns, object, ownedBy(name))
		case !exists[id]:
			w.add(kind, ns, object, ofService(name))
		case remove:
			w.remove(kind, ns, object)
			exists[id] = false
			return
		default:
			w.annotate(kind, ns, object, "note", strconv.Itoa(rand.Int()))
		}
		exists[id] = true
	}
	for i := range changes {
		name := "s" + strconv.Itoa(rand.N(services))
		switch rand.N(3) {
		case 0:
			change(Services, name, name)
		case 1:
			change(Routes, name, name)
		default:
			change(Revisions, name, name+"-00001")
		}
		switch {
		case i%stops == stops-1:
			d.stop() // and misses some
		case i%stops == stops/6 && i > stops:
			d = w.start(t, api, core, ns, smallPages)
		case i%25 == 24:
			api.CloseClientConnections()
		}
	}
	d.stop()
	api.setDisturb(nil)
	d = w.start(t, api, core, ns, smallPages)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(d.unquiet())
		}
	})
	began := time.Now()
	eventually(t, "everything is answered", d.quiet)
	t.Logf("quiet after %v", time.Since(began).Round(time.Millisecond))
	mu.Lock()
	defer mu.Unlock()
	for i := range services {
		name := "s" + strconv.Itoa(i)
		if now := w.seen(t, ns, name); read[name] != now && (read[name] != "" || now != "0 0") {
			t.Errorf("%s was last seen as %q, and is %q", name, read[name], now)
		}
	}
	if n := runtime.NumGoroutine(); n > 40000 {
		t.Errorf("%d goroutines", n)
	}
}
