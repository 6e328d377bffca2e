// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Modes of a plan. With Observe, members do not follow it.
const (
	Enforce = "enforce"
	Observe = "observe"
)

// Plan says which member must own each shard.
type Plan struct {
	Namespace string `json:"namespace"`
	Service   string `json:"service"`
	// Version increases with each plan.
	Version int64  `json:"version"`
	Mode    string `json:"mode"`
	// Held is the reason why no shard may move by choice. Empty: it may.
	Held string `json:"held"`
	// AtOnce is how many shards of a kind may be handed over at a time.
	AtOnce      int          `json:"atOnce"`
	Members     []PlanMember `json:"members"`
	EntityTypes []EntityType `json:"entityTypes"`
	// Peers are the members that registered with the controller, in a plan of runtime sidecar.
	Peers []Peer `json:"peers,omitempty"`
}

// Peer is a member that registered. Whoever registers later sees all that did before.
type Peer struct {
	Pod      string `json:"pod"`
	Revision string `json:"revision"`
	// Address is where it speaks TLS, as ip:port.
	Address string `json:"address"`
	// Pin is the SHA-256 of its public key, in hexadecimal digits. It is another one after each restart.
	Pin string `json:"pin"`
	// Restarts counts the registrations of the same pod before this one, since the last process that had left.
	Restarts int `json:"restarts,omitempty"`
	// Leaving: the pod is being deleted. Left: the process said that it holds nothing, and takes nothing any more. Gone:
	// the API says that the pod is gone.
	Leaving bool `json:"leaving,omitempty"`
	Left    bool `json:"left,omitempty"`
	Gone    bool `json:"gone,omitempty"`
}

// PlanMember is a member that may own shards.
type PlanMember struct {
	Address  string `json:"address"`
	Revision string `json:"revision"`
}

// EntityType is the plan of one kind.
type EntityType struct {
	Name   string `json:"name"`
	Shards int    `json:"shards"`
	// Quotas are the numbers of shards of the members.
	Quotas []int `json:"quotas"`
	// Owners are indexes of members, by shard; -1 is none. Nil: the plan has quotas only.
	Owners []int `json:"owners"`
}

// parsePlan reads a plan. Fields that a newer server adds are ignored.
func parsePlan(data []byte) (*Plan, error) {
	p := &Plan{}
	if err := json.Unmarshal(data, p); err != nil {
		return nil, fmt.Errorf("reading the plan: %w", err)
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("the plan is not valid: %w", err)
	}
	return p, nil
}

func (p *Plan) check() error {
	switch {
	case p.Namespace == "" || p.Service == "":
		return fmt.Errorf("namespace %q or service %q is empty", p.Namespace, p.Service)
	case p.Version <= 0:
		return fmt.Errorf("version %d is not positive", p.Version)
	case p.Mode != Enforce && p.Mode != Observe:
		return fmt.Errorf("mode %q is neither %s nor %s", p.Mode, Enforce, Observe)
	case p.AtOnce < 1:
		return fmt.Errorf("atOnce %d is less than 1", p.AtOnce)
	}
	addresses, names := map[string]bool{}, map[string]bool{}
	for _, m := range p.Members {
		if m.Address == "" || addresses[m.Address] {
			return fmt.Errorf("two members have the address %q, or one has none", m.Address)
		}
		addresses[m.Address] = true
	}
	if err := checkPeers(p.Peers); err != nil {
		return err
	}
	for _, e := range p.EntityTypes {
		if e.Name == "" || names[e.Name] {
			return fmt.Errorf("two entity types have the name %q, or one has none", e.Name)
		}
		names[e.Name] = true
		if err := e.check(len(p.Members)); err != nil {
			return fmt.Errorf("entity type %s: %w", e.Name, err)
		}
	}
	return nil
}

func checkPeers(all []Peer) error {
	addresses, pins := map[string]bool{}, map[string]bool{}
	for _, p := range all {
		if raw, err := hex.DecodeString(p.Pin); err != nil || len(raw) != 32 || pins[p.Pin] {
			return fmt.Errorf("two peers have the pin %q, or it is not a SHA-256", p.Pin)
		}
		if p.Address == "" || addresses[p.Address] && !p.Gone {
			return fmt.Errorf("two peers have the address %q, or one has none", p.Address)
		}
		pins[p.Pin] = true
		if !p.Gone {
			addresses[p.Address] = true
		}
	}
	return nil
}

func (e EntityType) check(members int) error {
	if e.Shards < 1 || len(e.Quotas) != members || e.Owners != nil && len(e.Owners) != e.Shards {
		return fmt.Errorf("it has %d shards, %d quotas for %d members and %d owners", e.Shards, len(e.Quotas), members, len(e.Owners))
	}
	for _, q := range e.Quotas {
		if q < 0 {
			return fmt.Errorf("a quota is %d", q)
		}
	}
	for s, o := range e.Owners {
		if o < -1 || o >= members {
			return fmt.Errorf("shard %d has the owner %d of %d", s, o, members)
		}
	}
	return nil
}

// entityType returns the plan of a kind with a number of shards, or nil. A nil plan has none.
func (p *Plan) entityType(kind string, shards int) *EntityType {
	if p == nil {
		return nil
	}
	for i := range p.EntityTypes {
		if e := &p.EntityTypes[i]; e.Name == kind && e.Shards == shards {
			return e
		}
	}
	return nil
}
