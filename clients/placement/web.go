// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"slices"
	"strconv"
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
// /cluster/shards/{kind}. GET /placement says which plan this member has.
func (g *Group) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /cluster/members", g.serveMembers)
	mux.HandleFunc("GET /cluster/shards/{kind}", g.serveShards)
	mux.HandleFunc("GET /placement", func(w http.ResponseWriter, _ *http.Request) { write(w, g.Report()) })
	return mux
}

func (g *Group) serveMembers(w http.ResponseWriter, _ *http.Request) {
	all, joined := g.Members.list()
	if !joined {
		all = nil // what it sees from outside is not its cluster
	}
	leader := ""
	if joined {
		leader = g.Members.leader()
	}
	unreachable := []managedUnreachable{}
	for _, node := range slices.Sorted(slices.Values(g.Silent())) {
		unreachable = append(unreachable, managedUnreachable{node, []string{g.Members.self}})
	}
	write(w, map[string]any{
		"selfNode": g.Members.self, "members": append([]managedMember{}, all...), "unreachable": unreachable,
		"leader": leader, "oldest": leader,
	})
}

func (g *Group) serveShards(w http.ResponseWriter, r *http.Request) {
	kind := r.PathValue("kind")
	if !g.runtime.Has(kind) {
		http.Error(w, `{"error":"this kind is not registered here"}`, http.StatusNotFound)
		return
	}
	got, err := g.Status(r.Context())
	if err != nil {
		http.Error(w, `{"error":"the member is too busy to answer"}`, http.StatusInternalServerError)
		return
	}
	regions := []managedRegion{}
	for _, number := range slices.Sorted(maps.Keys(got.Shards[kind])) {
		regions = append(regions, managedRegion{strconv.Itoa(number), got.Shards[kind][number]})
	}
	write(w, map[string]any{"regions": regions})
}

// Status returns what this member holds.
func (g *Group) Status(ctx context.Context) (*Status, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	got := make(chan *Status, 1)
	g.runtime.Serial(func() { got <- g.status() })
	select {
	case s := <-got:
		return s, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the shards of this member: %w", context.Cause(ctx))
	}
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
