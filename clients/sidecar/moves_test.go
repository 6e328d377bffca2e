// SPDX-License-Identifier: Apache-2.0

//nolint:contextcheck // a request ends, even if the load does
package sidecar

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/clients/placement"
)

// referee is told by the containers which key they handle.
type referee struct {
	mu      sync.Mutex
	active  map[string]string
	handled map[string]int
	wrong   []string
}

func newReferee() *referee {
	return &referee{active: map[string]string{}, handled: map[string]int{}}
}

// container is one that takes a while for each request, and knows the hooks.
type container struct {
	*referee
	name string
	took time.Duration
	// held are the shards that it was told to hold. open is how many requests it handles, and most the most so far.
	held map[string]bool
	open atomic.Int64
	most atomic.Int64
}

func (c *container) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if hook, is := strings.CutPrefix(r.URL.Path, "/.stateful/"); is {
		body, _ := io.ReadAll(r.Body)
		_, rest, _ := strings.Cut(string(body), `"shard":`)
		shard := strings.Trim(rest, "} \n")
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.held[shard] == (hook == "acquire") {
			c.wrong = append(c.wrong, fmt.Sprintf("%s: %s of shard %s out of order", c.name, hook, shard))
		}
		c.held[shard] = hook == "acquire"
		return
	}
	key, request := r.Header.Get("Stateful-Key"), r.Header.Get("X-Request")
	c.most.Store(max(c.most.Load(), c.open.Add(1)))
	defer c.open.Add(-1)
	c.mu.Lock()
	if at := c.active[key]; at != "" && at != c.name {
		c.wrong = append(c.wrong, fmt.Sprintf("%s on %s and %s", key, at, c.name))
	}
	if !c.held[r.Header.Get("Stateful-Shard")] {
		c.wrong = append(c.wrong, fmt.Sprintf("%s handles shard %s, which it was not told to hold", c.name, r.Header.Get("Stateful-Shard")))
	}
	c.active[key] = c.name
	c.handled[request]++
	c.mu.Unlock()
	time.Sleep(c.took)
	c.mu.Lock()
	delete(c.active, key)
	c.mu.Unlock()
	_, _ = io.WriteString(w, c.name)
}

type load struct {
	f        *fleet
	stop     context.CancelFunc
	senders  sync.WaitGroup
	mu       sync.Mutex
	answered []string
	refused  map[int]int
}

// load sends requests of all shards to the pods, one at a time for each sender and key.
func (f *fleet) load(entries ...*pod) *load {
	ctx, stop := context.WithCancel(f.Context())
	l := &load{f: f, stop: stop, refused: map[int]int{}}
	for i := range 8 {
		client := &http.Client{Transport: &http.Transport{}}
		l.senders.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				name := fmt.Sprintf("%d-%d", i, n)
				req, _ := http.NewRequestWithContext(f.Context(), http.MethodPost, entries[n%len(entries)].entry+"/", strings.NewReader("body"))
				req.Header.Set("X-Key", fmt.Sprintf("%d-%d", i, n%150)) // no two senders share a key
				req.Header.Set("X-Request", name)
				resp, err := client.Do(req)
				l.mu.Lock()
				switch {
				case err != nil:
					l.refused[0]++
				case resp.StatusCode == http.StatusOK:
					l.answered = append(l.answered, name)
				default:
					l.refused[resp.StatusCode]++
				}
				l.mu.Unlock()
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			}
		})
	}
	return l
}

func (l *load) end(r *referee) {
	l.f.Helper()
	l.stop()
	l.senders.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, n := range r.handled {
		if n != 1 {
			l.f.Errorf("request %s was handled %d times", name, n)
		}
	}
	if len(r.wrong) > 0 {
		l.f.Errorf("%d times: %v", len(r.wrong), r.wrong[:min(5, len(r.wrong))])
	}
	l.f.Logf("%d requests were answered; not answered, by status: %v", len(l.answered), l.refused)
}

// trio is a cluster of three pods, the last one a canary.
func trio(t *testing.T) (*fleet, *referee, []*pod) {
	t.Helper()
	f, r := newFleet(t), newReferee()
	var pods []*pod
	for _, revision := range []string{"stable", "stable", "canary"} {
		c := &container{referee: r, name: fmt.Sprint(revision, len(pods)), took: time.Millisecond, held: map[string]bool{}}
		pods = append(pods, f.start(revision, c))
	}
	f.together(3)
	return f, r, pods
}

func share(pods []*pod, percent int) func(int) *pod {
	return func(s int) *pod {
		if s < percent {
			return pods[2]
		}
		return pods[s%2]
	}
}

func (f *fleet) owned(owner func(int) *pod) {
	f.Helper()
	f.until("the shards are where the plan wants them", func() bool {
		for _, p := range f.pods {
			if p.member.Refuses() != nil {
				continue
			}
			held, err := p.member.Shards(f.Context())
			if err != nil {
				return false
			}
			for s := range 100 {
				if slices.Contains(held, s) != (owner(s) == p) {
					return false
				}
			}
		}
		return true
	})
}

// A rollout over 5, 20, 50 and 100 % and back loses no request, and handles none twice.
func TestRollout(t *testing.T) {
	f, r, pods := trio(t)
	f.enforce(share(pods, 0))
	load := f.load(pods...)
	for _, percent := range []int{0, 5, 20, 50, 100, 0} {
		f.enforce(share(pods, percent))
		f.owned(share(pods, percent))
	}
	load.end(r)
	if len(load.refused) > 0 {
		t.Error("requests were not answered")
	}
}

// A pod that drains hands its shards over, and then has answered all that it had.
func TestDrain(t *testing.T) {
	f, r, pods := trio(t)
	pods[0].config.linger = lingerFor
	f.enforce(share(pods, 20))
	load := f.load(pods[1:]...)
	time.Sleep(300 * time.Millisecond)
	w := httptest.NewRecorder()
	pods[0].Management().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/drain", nil))
	if held, err := pods[0].member.Shards(t.Context()); w.Code != http.StatusOK || pods[0].member.Open() != 0 || err != nil || len(held) != 0 {
		t.Errorf("drained with %d: %d requests are open, and %d shards held", w.Code, pods[0].member.Open(), len(held))
	}
	pods[0].end(t)
	f.controller.gone(pods[0].name)
	time.Sleep(300 * time.Millisecond)
	load.end(r)
	if len(load.refused) > 0 {
		t.Error("requests were not answered")
	}
}

// While the first member by address waits for its last requests, the others follow new plans.
func TestShardsMoveWhileTheFirstMemberDrains(t *testing.T) {
	f, hold := newFleet(t), make(chan struct{})
	var pods []*pod
	for range 3 {
		pods = append(pods, f.start("stable", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/hold" {
				<-hold
			}
		})))
	}
	release := sync.OnceFunc(func() { close(hold) })
	t.Cleanup(release)
	f.together(3)
	slices.SortFunc(pods, func(a, b *pod) int { return strings.Compare(a.member.Address(), b.member.Address()) })
	first, second, third := pods[0], pods[1], pods[2]
	// More shards of the first member are in use than may be handed over at a time.
	const used, all = 15, 20
	before := func(s int) *pod {
		if s < used {
			return first
		}
		return second
	}
	f.enforce(before)
	for s := range all {
		f.do(second, http.MethodGet, "/", keyOf(s), "")
	}
	var requests sync.WaitGroup
	for s := range used {
		requests.Go(func() { f.do(first, http.MethodGet, "/hold", keyOf(s), "") })
	}
	f.until("the requests are open", func() bool { return first.member.Open() == used })
	left := make(chan error, 1)
	go func() { left <- first.member.Leave(context.WithoutCancel(t.Context())) }()
	f.until("all know that it leaves", func() bool {
		return seenBy(t, second).leaves(first) && seenBy(t, third).leaves(first)
	})
	f.enforce(func(int) *pod { return third })
	f.until("the second member has handed its shards over", func() bool {
		held, err := third.member.Shards(t.Context())
		return err == nil && len(held) == all-used
	})
	if n := first.member.Open(); n != used {
		t.Errorf("only %d requests are open", n)
	}
	if at := seenBy(t, third).Oldest; at != second.member.Address() {
		t.Errorf("%s is said to move shards, and %s does", at, second.member.Address())
	}
	release()
	requests.Wait()
	if err := <-left; err != nil {
		t.Error(err)
	}
}

// cluster is what a member says of the others.
type cluster struct {
	Oldest  string
	Members []struct{ Node, Status string }
}

func (c cluster) leaves(p *pod) bool {
	return slices.Contains(c.Members, struct{ Node, Status string }{p.member.Address(), "Leaving"})
}

func seenBy(t *testing.T, p *pod) (c cluster) {
	t.Helper()
	w := httptest.NewRecorder()
	p.Management().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/cluster/members", nil))
	if err := json.Unmarshal(w.Body.Bytes(), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// The first pod after zero does not wait: the last one told the controller that it had left.
func TestFromZero(t *testing.T) {
	f := newFleet(t)
	f.configure = func(c *Config) { c.Placement.Lease = time.Minute }
	for i, gone := range []bool{false, true} {
		p := f.start("stable", &echo{name: "a"})
		begun := time.Now()
		if resp, body := f.do(p, http.MethodGet, "/", keyOf(i), ""); resp.StatusCode != http.StatusOK {
			t.Fatal(resp.StatusCode, body)
		}
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("pod %d: the first answer took %s", i, took)
		}
		p.end(t)
		if gone {
			f.controller.gone(p.name)
		}
	}
	f.start("stable", &echo{name: "a"})
	if resp, body := f.do(f.pods[2], http.MethodGet, "/", keyOf(2), ""); resp.StatusCode != http.StatusOK {
		t.Error(resp.StatusCode, body)
	}
}

// Queue-proxy answers soon if the pod does not end, whoever asks. Then the member stays.
func TestDrainOfAPodThatStays(t *testing.T) {
	f := newFleet(t)
	var takes atomic.Int64
	queueProxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		time.Sleep(time.Duration(takes.Load()))
	}))
	t.Cleanup(queueProxy.Close)
	f.configure = func(c *Config) { c.DrainURL, c.drainsFor = queueProxy.URL, 200*time.Millisecond }
	a := f.start("stable", &echo{name: "a"})
	drain := func() int {
		w := httptest.NewRecorder()
		a.Management().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/drain", nil))
		return w.Code
	}
	for _, ends := range []bool{false, true} {
		if ends {
			takes.Store(int64(300 * time.Millisecond))
		}
		if code := drain(); code != http.StatusOK || a.member.Joined() == ends {
			t.Errorf("the pod ends: %v; answered %d, a member: %v", ends, code, a.member.Joined())
		}
	}
}

// A slow queue-proxy does not let a member leave whose pod stays, and none that fails, or learns late that the pod ends,
// lets the container end before its requests.
func TestDrainWithASlowQueueProxy(t *testing.T) {
	for name, c := range map[string]struct {
		// first and then are how long queue-proxy takes to answer.
		first, then time.Duration
		fails, ends bool
	}{
		"slow, and the pod stays":   {first: 6 * time.Second},
		"late, and the pod ends":    {first: 100 * time.Millisecond, then: 500 * time.Millisecond, ends: true},
		"failed, and the pod ends":  {fails: true, ends: true},
		"failed, and the pod stays": {fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			var asked atomic.Int64
			queueProxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if c.fails {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				time.Sleep([]time.Duration{c.first, c.then}[min(asked.Add(1)-1, 1)])
			}))
			t.Cleanup(queueProxy.Close)
			f.configure = func(c *Config) {
				c.DrainURL, c.drainsFor, c.saidWithin = queueProxy.URL, drainsFor, saidWithin
			}
			a, release := f.startHeld()
			drained := make(chan int, 1)
			go func() {
				w := httptest.NewRecorder()
				a.Management().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/drain", nil))
				drained <- w.Code
			}()
			time.Sleep(300 * time.Millisecond)
			if c.ends {
				f.controller.change(func(p *placement.Plan) { p.Peers[0].Leaving = true })
				select {
				case code := <-drained:
					t.Errorf("the container ends with %d while a request is open", code)
				case <-time.After(time.Second):
				}
				release()
			} else {
				defer release()
			}
			select {
			case code := <-drained:
				if (code == http.StatusOK) == (c.fails && !c.ends) || a.member.Joined() == c.ends {
					t.Errorf("answered %d, a member: %v", code, a.member.Joined())
				}
			case <-time.After(15 * time.Second):
				t.Error("the container does not end")
			}
		})
	}
}

// The shards of a pod that ends without a word are handled elsewhere after the API says so, and the lease is over.
func TestKilledPod(t *testing.T) {
	f, r, pods := trio(t)
	f.enforce(share(pods, 20))
	load := f.load(pods[1:]...)
	time.Sleep(300 * time.Millisecond)
	pods[0].member.Group().Kill()

	f.controller.gone(pods[0].name)
	begun := time.Now()
	f.until("the others have all shards", func() bool {
		held := 0
		for _, p := range pods[1:] {
			all, _ := p.member.Shards(t.Context())
			held += len(all)
		}
		return held == 100
	})
	if took := time.Since(begun); took < 900*time.Millisecond {
		t.Errorf("the shards had owners after %s; the lease is 1s", took)
	}
	load.end(r)
}

// Until the request time-out is over, no member gets what an earlier process of a pod held: its container may go on.
func TestRestartedSidecar(t *testing.T) {
	for _, together := range []bool{false, true} {
		t.Run(fmt.Sprint("together=", together), func(t *testing.T) {
			f := newFleet(t)
			f.configure = func(c *Config) { c.RequestTimeout, c.Together = 3*time.Second, together }
			a, b := f.start("stable", &echo{name: "a"}), f.start("stable", &echo{name: "b"})
			f.together(2)
			f.enforce(func(s int) *pod { return []*pod{a, b}[s%2] })
			if _, body := f.do(b, http.MethodGet, "/", keyOf(2), ""); !strings.HasPrefix(body, "a ") {
				t.Fatal(body)
			}
			a.member.Group().Kill() // it holds shard 2, and says nothing
			a.stop()
			<-a.ended
			a.ended <- nil
			f.startAt(a.name, a.config.PodIP)
			begun := time.Now()
			resp, body := f.do(b, http.MethodGet, "/", keyOf(2), "")
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
			if took := time.Since(begun); (took > 2*time.Second) == together {
				t.Errorf("the shard had an owner after %s", took)
			}
		})
	}
}

// The same holds if the new process hands over and leaves before that.
func TestRestartedSidecarLeaves(t *testing.T) {
	f := newFleet(t)
	f.configure = func(c *Config) { c.RequestTimeout = 4 * time.Second }
	a, b := f.start("stable", &echo{name: "a"}), f.start("stable", &echo{name: "b"})
	f.together(2)
	f.enforce(func(s int) *pod { return []*pod{a, b}[s%2] })
	if _, body := f.do(b, http.MethodGet, "/", keyOf(2), ""); !strings.HasPrefix(body, "a ") {
		t.Fatal(body)
	}
	a.member.Group().Kill()
	a.stop()
	<-a.ended
	a.ended <- nil
	again := f.startAt(a.name, a.config.PodIP)
	f.hears(b, again) // who does not know a process does not believe that it leaves
	begun := time.Now()
	if err := again.member.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // until the other one has heard it
	if resp, body := f.do(b, http.MethodGet, "/", keyOf(2), ""); resp.StatusCode != http.StatusOK {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if took := time.Since(begun); took < 2*time.Second {
		t.Errorf("the shard had an owner after %s, but what the process before began may still run", took)
	}
}

// A request whose shard has no owner waits no longer than it may, and can then be tried again.
func TestPatience(t *testing.T) {
	f := newFleet(t)
	f.configure = func(c *Config) { c.Placement.Patience = 300 * time.Millisecond }
	a, b := f.start("stable", &echo{name: "a"}), f.start("stable", &echo{name: "b"})
	f.together(2)
	f.enforce(func(s int) *pod { return []*pod{a, b}[s%2] })
	b.member.Group().Kill()
	b.stop()
	<-b.ended
	b.ended <- nil
	begun := time.Now()
	resp, body := f.do(a, http.MethodPost, "/", keyOf(3), "body")
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || time.Since(begun) > 3*time.Second {
		t.Errorf("%d %q %v after %s", resp.StatusCode, body, resp.Header, time.Since(begun))
	}
	if resp, _ := f.do(a, http.MethodPost, "/", "", "body"); resp.StatusCode != http.StatusOK {
		t.Errorf("without a key: %d", resp.StatusCode)
	}
}

// The container handles no more requests at a time than it may, wherever they entered.
func TestContainerConcurrency(t *testing.T) {
	f, r := newFleet(t), newReferee()
	f.configure = func(c *Config) { c.Concurrency = 2 }
	one := &container{referee: r, name: "one", took: 5 * time.Millisecond, held: map[string]bool{}}
	a := f.start("stable", one)
	b := f.start("stable", &container{referee: r, name: "two", took: 5 * time.Millisecond, held: map[string]bool{}})
	f.together(2)
	f.enforce(func(int) *pod { return a })
	load := f.load(a, b)
	time.Sleep(time.Second)
	load.end(r)
	if most := one.most.Load(); most != 2 {
		t.Errorf("the container handled %d requests at a time, want 2", most)
	}
}

// Without placement, shards are divided evenly, and few move when a member comes.
func TestEven(t *testing.T) {
	f, r, pods := trio(t)
	load := f.load(pods...)
	f.until("even shares", func() bool {
		for _, p := range pods {
			if held, _ := p.member.Shards(t.Context()); len(held) < 33 || len(held) > 34 {
				return false
			}
		}
		return true
	})
	load.end(r)
	if len(load.refused) > 0 {
		t.Error("requests were not answered")
	}
}

// While the controller is away, the last plan is in force, and nothing moves.
func TestControllerAway(t *testing.T) {
	f, r, pods := trio(t)
	f.enforce(share(pods, 20))
	load := f.load(pods...)
	f.owned(share(pods, 20))
	f.controller.mu.Lock()
	f.controller.away = true
	f.controller.mu.Unlock()
	time.Sleep(2 * time.Second)
	f.owned(share(pods, 20))
	load.end(r)
	if len(load.refused) > 0 {
		t.Error("requests were not answered")
	}
}

// A member that the controller does not list any more handles nothing, and its process ends.
func TestExpelled(t *testing.T) {
	f, _, pods := trio(t)
	f.controller.change(func(p *placement.Plan) {
		p.Peers = slices.DeleteFunc(p.Peers, func(one placement.Peer) bool { return one.Pod == pods[0].name })
	})
	select {
	case err := <-pods[0].ended:
		if err == nil || !strings.Contains(err.Error(), "register anew") {
			t.Error(err)
		}
		pods[0].ended <- err
	case <-time.After(10 * time.Second):
		t.Error("the process does not end")
	}
}
