// SPDX-License-Identifier: Apache-2.0

package protoactor

import (
	"encoding/json"
	"hash/fnv"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// managedMember is a member, as Pekko Management describes it.
type managedMember struct {
	Node   string   `json:"node"`
	UID    string   `json:"nodeUid"`
	Status string   `json:"status"`
	Roles  []string `json:"roles"`
}

type managedUnreachable struct {
	Node       string   `json:"node"`
	ObservedBy []string `json:"observedBy"`
}

type managedRegion struct {
	ShardID  string `json:"shardId"`
	Entities int    `json:"numEntities"`
}

// Handler serves what the controller asks each member for, read-only: GET /cluster/members and GET
// /cluster/shards/{kind}. GET /placement says which plan this member has. Serve it at the port that the annotation
// stateful.knative-cdevents.dev/management-port names. Before the cluster has started, it answers 503.
func (l *Lookup) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /cluster/members", l.serveMembers)
	mux.HandleFunc("GET /cluster/shards/{kind}", l.serveShards)
	mux.HandleFunc("GET /placement", l.servePlacement)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !l.started.Load() {
			http.Error(w, `{"error":"the cluster has not started"}`, http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (l *Lookup) serveMembers(w http.ResponseWriter, _ *http.Request) {
	all, joined := l.members.list()
	if !joined {
		all = nil // what it sees from outside is not its cluster
	}
	leader := ""
	if len(all) > 0 {
		leader = all[0].Node
	}
	unreachable := []managedUnreachable{}
	l.mu.Lock()
	for _, node := range slices.Sorted(maps.Keys(l.silent)) {
		unreachable = append(unreachable, managedUnreachable{node, []string{l.members.self}})
	}
	l.mu.Unlock()
	write(w, map[string]any{
		"selfNode": l.members.self, "members": append([]managedMember{}, all...), "unreachable": unreachable, "leader": leader, "oldest": leader,
	})
}

func (l *Lookup) serveShards(w http.ResponseWriter, r *http.Request) {
	kind := r.PathValue("kind")
	if _, known := l.cluster.TryGetClusterKind(kind); !known {
		http.Error(w, `{"error":"this kind is not registered here"}`, http.StatusNotFound)
		return
	}
	got, err := call(l.system(), l.members.self, request{Status: true}, callWithin)
	if err != nil {
		http.Error(w, `{"error":"the placement actor does not answer"}`, http.StatusInternalServerError)
		return
	}
	regions := []managedRegion{}
	for _, number := range slices.Sorted(maps.Keys(got.Status.Shards[kind])) {
		regions = append(regions, managedRegion{strconv.Itoa(number), got.Status.Shards[kind][number]})
	}
	write(w, map[string]any{"regions": regions})
}

func (l *Lookup) servePlacement(w http.ResponseWriter, _ *http.Request) {
	k := l.poller.now()
	out := map[string]any{"version": k.version, "following": k.follow() != nil, "moves": l.Moves(), "movesHeld": k.obstacle(time.Now(), l.settings.StaleAfter)}
	if age, confirmed := l.Age(); confirmed {
		out["ageSeconds"] = age.Seconds()
	}
	write(w, out)
}

func write(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // ignore a client that has disconnected
}

// uid makes a number of a member's id, because Pekko's are numbers.
func uid(id string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // a hash never fails
	return strconv.FormatUint(h.Sum64(), 10)
}
