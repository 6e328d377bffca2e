// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	namespace, token := file("namespace", "shop\n"), file("token", "secret")
	env := func(string) string { return "cart" }
	good, err := Settings{Shards: 100, TokenFile: token}.Complete(env, namespace)
	if err != nil || good.URL != defaultURL || good.Namespace != "shop" || good.Service != "cart" || good.Wait != 30*time.Second || good.Lease != 10*time.Second {
		t.Fatalf("%+v, %v", good, err)
	}
	if _, err := (Settings{Shards: 1, Disabled: true}).Complete(func(string) string { return "" }, "absent"); err != nil {
		t.Errorf("disabled: %v", err)
	}
	for says, s := range map[string]Settings{
		"from 1 to 65536":                      {Shards: 0},
		"Shards is 70000":                      {Shards: 70000},
		"whole seconds":                        {Wait: 1500 * time.Millisecond},
		"longer than Wait":                     {Wait: 10 * time.Second, StaleAfter: 10 * time.Second},
		"at most 90s":                          {StaleAfter: 2 * time.Minute},
		"MaxBackoff not the shorter":           {MinBackoff: time.Minute, MaxBackoff: time.Second},
		"at least 100ms":                       {Lease: time.Millisecond},
		"must not be negative":                 {Patience: -1},
		"without user, query":                  {URL: "http://a?b"},
		"an http or https address":             {URL: "controller"},
		"set an https URL":                     {URL: "http://a", CAFile: "ca"},
		`Namespace is "A"`:                     {Namespace: "A"},
		`Service is "a.b"`:                     {Service: "a.b"},
		"TokenFile cannot be read; mount the ": {TokenFile: "absent"},
	} {
		if s.Shards == 0 && !strings.Contains(says, "65536") {
			s.Shards = 100
		}
		if s.TokenFile == "" {
			s.TokenFile = token
		}
		if _, err := s.Complete(env, namespace); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q: %v", says, err)
		}
	}
	_, err = Settings{Shards: 1}.Complete(func(string) string { return "" }, "absent")
	for _, says := range []string{"Namespace is empty", "K_SERVICE", "TokenFile", "Disabled"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("outside of a pod, want %q: %v", says, err)
		}
	}
}

// Members of old and new builds share a cluster.
func TestTheHashNeverChanges(t *testing.T) {
	t.Parallel()
	for identity, want := range map[string]int{"": 61, "a": 20, "foobar": 20} {
		if got := ShardOf(identity, 100); got < 0 || got > 99 || got != want {
			t.Errorf("%q is in shard %d, want %d", identity, got, want)
		}
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	count := func(all []string) map[string]int {
		out := map[string]int{}
		for _, a := range all {
			out[a]++
		}
		return out
	}
	p := &Plan{
		Members: []PlanMember{{"a", "one"}, {"b", "one"}, {"c", "two"}},
		EntityTypes: []EntityType{
			{Name: "Cart", Shards: 10, Quotas: []int{5, 3, 2}, Owners: []int{0, 0, 0, 0, 0, 1, 1, 1, 2, 2}},
			{Name: "Big", Shards: 100, Quotas: []int{50, 45, 5}},
		},
	}
	for name, c := range map[string]struct {
		kind    string
		shards  int
		members string
		want    map[string]int
	}{
		"all members":                     {"Cart", 10, "abc", map[string]int{"a": 5, "b": 3, "c": 2}},
		"an owner is not there":           {"Cart", 10, "bc", map[string]int{"b": 8, "c": 2}},
		"a Revision is not there":         {"Cart", 10, "ab", map[string]int{"a": 6, "b": 4}},
		"a member that the plan does not": {"Cart", 10, "abcd", map[string]int{"a": 5, "b": 3, "c": 2}},
		"only such a member":              {"Cart", 10, "d", map[string]int{"d": 10}},
		"another number of shards":        {"Cart", 12, "abc", map[string]int{"a": 4, "b": 4, "c": 4}},
		"another kind":                    {"Order", 100, "abc", map[string]int{"a": 34, "b": 33, "c": 33}},
		"quotas only":                     {"Big", 100, "abc", map[string]int{"a": 50, "b": 45, "c": 5}},
		"quotas, without an owner":        {"Big", 100, "bc", map[string]int{"b": 95, "c": 5}},
	} {
		got := targets(p, c.kind, c.shards, strings.Split(c.members, ""))
		if !maps.Equal(count(got), c.want) {
			t.Errorf("%s: %v, want %v", name, count(got), c.want)
		}
		if again := targets(p, c.kind, c.shards, strings.Split(c.members, "")); !slices.Equal(got, again) {
			t.Errorf("%s: two results", name)
		}
	}
	if got := targets(p, "Cart", 10, nil); got != nil {
		t.Errorf("without members: %v", got)
	}
	two, three := targets(nil, "Cart", 900, []string{"a", "b"}), targets(nil, "Cart", 900, []string{"a", "b", "c"})
	moved := 0
	for s := range two {
		if two[s] != three[s] {
			moved++
		}
	}
	if moved > 450 {
		t.Errorf("%d of 900 shards change when a third member comes; 300 must", moved)
	}
}

func TestPlansThatAreNotValid(t *testing.T) {
	t.Parallel()
	good := `{"namespace":"shop","service":"cart","version":5,"mode":"enforce","atOnce":10,"members":[{"address":"a:1","revision":"r","pod":"p"}],` +
		`"entityTypes":[{"name":"Cart","shards":2,"quotas":[2],"owners":[0,-1]}],"later":true}`
	if p, err := parsePlan([]byte(good)); err != nil || p.entityType("Cart", 2) == nil || p.entityType("Cart", 3) != nil {
		t.Fatalf("%+v, %v", p, err)
	}
	for from, to := range map[string]string{
		`"version":5`: `"version":0`, `"enforce"`: `"later"`, `"atOnce":10`: `"atOnce":0`, `"a:1"`: `""`, `"shop"`: `""`, `"quotas":[2]`: `"quotas":[]`,
		`[0,-1]`: `[0,1]`, `"Cart"`: `""`, `"shards":2`: `"shards":"2"`, `[2]`: `[-2]`, `,"later":true}`: ``, `"owners":[0,-1]`: `"owners":[0]`,
	} {
		if _, err := parsePlan([]byte(strings.Replace(good, from, to, 1))); err == nil {
			t.Errorf("%s instead of %s is accepted", to, from)
		}
	}
}

func TestPeersThatAreNotValid(t *testing.T) {
	t.Parallel()
	pin := func(n int) string { return fmt.Sprintf("%064x", n) }
	for name, c := range map[string]struct {
		peers []Peer
		valid bool
	}{
		"two":                               {[]Peer{{Address: "a:1", Pin: pin(1)}, {Address: "b:1", Pin: pin(2)}}, true},
		"one that is gone, and its address": {[]Peer{{Address: "a:1", Pin: pin(1), Gone: true}, {Address: "a:1", Pin: pin(2)}}, true},
		"the same in another order":         {[]Peer{{Address: "a:1", Pin: pin(2)}, {Address: "a:1", Pin: pin(1), Gone: true}}, true},
		"two at an address":                 {[]Peer{{Address: "a:1", Pin: pin(1)}, {Address: "a:1", Pin: pin(2)}}, false},
		"one pin":                           {[]Peer{{Address: "a:1", Pin: pin(1)}, {Address: "b:1", Pin: pin(1)}}, false},
		"a short pin":                       {[]Peer{{Address: "a:1", Pin: "ff"}}, false},
		"no address":                        {[]Peer{{Pin: pin(1)}}, false},
	} {
		if err := checkPeers(c.peers); (err == nil) != c.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMembersThatRegistered(t *testing.T) {
	t.Parallel()
	now := time.Now()
	me, other := Member{ID: "me", Address: "h:1", Kinds: []string{"Key"}}, Member{ID: "other", Address: "h:2", Kinds: []string{"Key"}}
	m := NewRegistered("h:1", "me", 10*time.Second)
	m.Update([]Member{{ID: "before", Address: "h:1"}, other}, now)
	if _, joined := m.Others(); joined {
		t.Error("it takes an earlier process at its address for itself")
	}
	if !m.haunted(now) {
		t.Error("before it is in a list, it says that there was no earlier process")
	}
	m.Before("an earlier process", now.Add(time.Minute))
	m.Update([]Member{me, other}, now)
	if others, joined := m.Others(); !joined || !slices.Equal(others, []string{"h:2"}) || m.away(now) != time.Minute {
		t.Errorf("%v %v, away %s", others, joined, m.away(now))
	}
	m.away(now.Add(time.Minute))
	// One that this member never saw alive has a lease as well, once.
	gone := Member{ID: "gone", Address: "h:3", Gone: true}
	m.Update([]Member{me, other, gone}, now)
	if others, _ := m.Others(); len(others) != 1 || m.away(now) != 10*time.Second {
		t.Errorf("%v, away %s", others, m.away(now))
	}
	m.away(now.Add(10 * time.Second))
	m.Update([]Member{me, other, gone}, now.Add(11*time.Second))
	if got := m.away(now.Add(11 * time.Second)); got != 0 {
		t.Errorf("a second lease of %s", got)
	}
	// One that said that it has left needs none, whether this member came after it, or saw it alive.
	left := Member{ID: "left", Address: "h:4", Left: true}
	other.Left = true
	for _, gone := range []bool{false, true} {
		left.Gone, other.Gone = gone, gone
		m.Update([]Member{me, other, left}, now)
		if others, _ := m.Others(); len(others) != 0 || m.away(now) != 0 {
			t.Errorf("after they left: %v, away %s", others, m.away(now))
		}
	}
	m.Update([]Member{me}, now)
	if got := m.away(now); got != 0 {
		t.Errorf("they are not listed any more: away %s", got)
	}
	other.Leaving, other.Left, other.Gone, other.ID = true, false, false, "another"
	m.Update([]Member{me, other}, now)
	if able, _ := m.able("Key"); !slices.Equal(able, []string{"h:1"}) {
		t.Errorf("a member that leaves gets shards: %v", able)
	}
}

func TestWhatIsKnown(t *testing.T) {
	t.Parallel()
	now := time.Now()
	at := func(version int64, mode string) answer {
		return answer{outcome: found, plan: &Plan{Version: version, Mode: mode}}
	}
	for name, c := range map[string]struct {
		answers []answer
		version int64
		follows bool
		moves   bool
	}{
		"nothing":                      {nil, 0, false, false},
		"no answer":                    {[]answer{{}}, 0, false, false},
		"no plan yet":                  {[]answer{{outcome: refused}}, 0, false, false},
		"not enabled":                  {[]answer{{outcome: notEnabled}}, 0, false, true},
		"a plan":                       {[]answer{at(5, Enforce)}, 5, true, true},
		"a plan to observe":            {[]answer{at(5, Observe)}, 5, false, true},
		"confirmed":                    {[]answer{at(5, Enforce), {outcome: refused}, {outcome: unchanged}}, 5, true, true},
		"an older plan":                {[]answer{at(5, Enforce), at(4, Observe)}, 5, true, true},
		"refused later":                {[]answer{at(5, Enforce), {outcome: refused}}, 5, true, false},
		"refused, then unreachable":    {[]answer{at(5, Enforce), {outcome: refused}, {}}, 5, true, false},
		"unreachable for a short time": {[]answer{at(5, Enforce), {}, {}}, 5, true, true},
		"enabled no more":              {[]answer{at(5, Enforce), {outcome: notEnabled}}, 5, false, true},
	} {
		var k Known
		for _, a := range c.answers {
			k = k.after(a, now, now)
		}
		if k.version != c.version || (k.Follow() != nil) != c.follows || (k.obstacle(now, time.Minute) == "") != c.moves {
			t.Errorf("%s: %+v, obstacle %q", name, k, k.obstacle(now, time.Minute))
		}
	}
	k := Known{}.after(at(5, Enforce), now, now)
	if why := k.obstacle(now.Add(91*time.Second), 90*time.Second); !strings.Contains(why, "not confirmed") {
		t.Errorf("a stale plan: %q", why)
	}
	k.plan.Held = "MemberJoining"
	if why := k.obstacle(now, time.Minute); !strings.Contains(why, "MemberJoining") {
		t.Errorf("a held plan: %q", why)
	}
}

func TestAnswersOfTheServer(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	status, body, header := 200, "", ""
	var got *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.Header().Set("Retry-After", header)
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	s, err := newSource(Settings{URL: server.URL, Namespace: "shop", Service: "cart", TokenFile: token, Wait: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if a := s.ask(t.Context(), Known{}); a.outcome != failed || !strings.Contains(a.why, "token") {
		t.Errorf("without a token: %+v", a)
	}
	plan5 := `{"namespace":"shop","service":"cart","version":5,"mode":"enforce","atOnce":10,"members":[],"entityTypes":[]}`
	has := Known{plan: &Plan{Version: 4}, version: 4}
	for i, c := range []struct {
		status  int
		body    string
		known   Known
		outcome outcome
		says    string
	}{
		{200, plan5, Known{}, found, ""},
		{200, strings.Replace(plan5, "cart", "other", 1), Known{}, failed, "shop/other"},
		{200, "<html>", Known{}, failed, "reading the plan"},
		{200, strings.Repeat(" ", mostBytes+1), Known{}, failed, "more than"},
		{302, "", Known{}, failed, "302"},
		{304, "", has, unchanged, ""},
		{304, "", Known{}, failed, "no plan is known"},
		{401, `{"error":"expired"}`, has, refused, "expired"},
		{403, `{"error":"not a pod"}`, has, refused, "not a pod"},
		{404, `{"reason":"NotEnabled"}`, has, notEnabled, ""},
		{404, `{"reason":"NoPlanYet"}`, has, refused, "no plan yet"},
		{404, `not found`, has, failed, "address of the controller"},
		{503, `{"error":"starting"}`, has, failed, "starting"},
	} {
		// kubelet renews the token.
		if err := os.WriteFile(token, fmt.Appendf(nil, "token-%d\n", i), 0o600); err != nil {
			t.Fatal(err)
		}
		status, body, header = c.status, c.body, "7"
		a := s.ask(t.Context(), c.known)
		if a.outcome != c.outcome || !strings.Contains(a.why, c.says) {
			t.Errorf("%d %.40s: %+v", c.status, c.body, a)
		}
		if a.retryAfter != 7*time.Second && !strings.Contains(a.why, "more than") {
			t.Errorf("%d: retry after %s", c.status, a.retryAfter)
		}
		if want := fmt.Sprintf("Bearer token-%d", i); got.Header.Get("Authorization") != want {
			t.Errorf("the token is %q, want %q", got.Header.Get("Authorization"), want)
		}
		if c.known.plan != nil && (got.Header.Get("If-None-Match") != `"4"` || got.URL.RawQuery != "wait=30s") {
			t.Errorf("asked for %s with %s", got.URL, got.Header.Get("If-None-Match"))
		}
	}
	server.Close()
	if a := s.ask(t.Context(), Known{}); a.outcome != failed || a.why == "" {
		t.Errorf("without a server: %+v", a)
	}
}

func TestPauses(t *testing.T) {
	t.Parallel()
	p := &Poller{settings: Settings{MinBackoff: time.Second, MaxBackoff: 30 * time.Second}}
	for failures := 1; failures < 100; failures++ {
		got := p.pause(answer{}, failures, 0)
		longest := min(30*time.Second, time.Second<<min(failures-1, 20))
		if got < longest/2 || got > longest {
			t.Errorf("after %d failures: %s", failures, got)
		}
	}
	if got := p.pause(answer{retryAfter: time.Minute}, 1, 0); got < time.Minute || got > 61*time.Second {
		t.Errorf("with Retry-After: %s", got)
	}
	if got := p.pause(answer{outcome: unchanged}, 0, 30*time.Second); got != 0 {
		t.Errorf("after a long poll: %s", got)
	}
}

// Of two claims for a shard, exactly one wins.
func TestOneClaimWins(t *testing.T) {
	t.Parallel()
	all := []Claim{{From: "a", Version: 1}, {From: "b", Version: 1}, {From: "b", Version: 2}, {From: "c", Version: 1, Move: true}, {From: "d", Version: 2, Move: true}}
	for _, x := range all {
		for _, y := range all {
			if x.From == y.From {
				continue
			}
			xWins := x.beats(&claimed{version: y.Version, move: y.Move}, y.From)
			yWins := y.beats(&claimed{version: x.Version, move: x.Move}, x.From)
			if xWins == yWins {
				t.Errorf("%+v and %+v: both win, or none", x, y)
			}
		}
	}
}

func TestLeases(t *testing.T) {
	t.Parallel()
	now := time.Now()
	member := func(id string, port int32) Member {
		return Member{ID: id, Address: fmt.Sprintf("h:%d", port), Kinds: []string{"Cart"}}
	}
	me, other, third := member("me", 1), member("other", 2), member("third", 3)
	m := NewMembers("h:1", 10*time.Second)
	topology := func(all ...Member) []Member {
		return all
	}
	if _, joined := m.Others(); joined {
		t.Error("it may claim shards before it has joined")
	}
	m.Update(topology(me), now)
	if _, joined := m.Others(); joined {
		t.Error("it may claim shards before it knows the others")
	}
	m.joined = now.Add(-settleFor)
	m.Update(topology(me, other, third), now)
	if others, joined := m.Others(); !joined || !slices.Equal(others, []string{"h:2", "h:3"}) {
		t.Errorf("the others are %v", others)
	}
	m.Update(topology(me, third), now)
	if got := m.away(now.Add(4 * time.Second)); got != 6*time.Second {
		t.Errorf("a member left without a word 4 s ago, and the others wait %s", got)
	}
	m.leaves(Left{ID: "third", Done: true})
	if others, _ := m.Others(); len(others) != 0 {
		t.Errorf("a member that has handed everything over is asked: %v", others)
	}
	m.Update(topology(me), now.Add(5*time.Second))
	if got := m.away(now.Add(5 * time.Second)); got != 5*time.Second {
		t.Errorf("after one left in order, the others wait %s", got)
	}
	m.Update(topology(me, member("other again", 2)), now.Add(6*time.Second))
	if got := m.away(now.Add(6 * time.Second)); got != 0 {
		t.Errorf("a process at the same address runs, and the others wait %s", got)
	}
	if !m.Update(topology(member("other again", 2)), now) {
		t.Error("it does not notice that it was expelled")
	}
	m.Update(topology(member("another me", 1)), now)
	if _, joined := m.Others(); joined || m.leave().ID != "me" {
		t.Error("it may claim shards although it was expelled, or it takes a later process at its address for itself")
	}
}
