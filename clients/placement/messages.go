// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"time"
)

// Request is a message between members. One field is set. Its JSON is what members of all builds understand.
type Request struct {
	Activate *Activate `json:"activate,omitempty"`
	Claim    *Claim    `json:"claim,omitempty"`
	Take     *Take     `json:"take,omitempty"`
	Status   bool      `json:"status,omitempty"`
	// Released and Left are not answered.
	Released *Released `json:"released,omitempty"`
	Left     *Left     `json:"left,omitempty"`
}

// ShardID names a shard.
type ShardID struct {
	Kind  string `json:"kind"`
	Shard int    `json:"shard"`
}

func (s ShardID) String() string { return fmt.Sprintf("%s/%d", s.Kind, s.Shard) }

// Activate asks for what an identity is at the member that holds its shard. Version is that of the plan by which the
// caller chose the member.
type Activate struct {
	ShardID
	Identity string `json:"identity"`
	Version  int64  `json:"version"`
}

// Claim asks a member to agree that another one gets a shard.
type Claim struct {
	ShardID
	From    string `json:"from"`
	Version int64  `json:"version"`
	// Move asks the member that holds the shard to hand it over. Otherwise, it keeps it and says so.
	Move bool `json:"move,omitempty"`
}

// Take tells a member to get a shard from the one that holds it.
type Take struct {
	ShardID
	Holder  string `json:"holder"`
	Version int64  `json:"version"`
}

// Released says that a member does not hold a shard any more.
type Released struct {
	ShardID
	From string `json:"from"`
	To   string `json:"to,omitempty"`
}

// Left says that a member hands all its shards over, or, if Done, that it has.
type Left struct {
	ID   string `json:"id"`
	Done bool   `json:"done,omitempty"`
}

// Reply answers a request.
type Reply struct {
	// Error says what is wrong with the request.
	Error string `json:"error,omitempty"`
	// Granted: the member agrees to the claim, takes the shard, or holds it.
	Granted bool `json:"granted,omitempty"`
	// PID is what was activated at the member that answers, as its runtime names it.
	PID string `json:"pid,omitempty"`
	// Holder is the member to ask instead, and Version that of the plan that says so. Empty: try again later.
	Holder  string `json:"holder,omitempty"`
	Version int64  `json:"version,omitempty"`
	// After is how long the claimer must wait for members that left without a word.
	After time.Duration `json:"after,omitempty"`
	// Epoch is the highest that the member knows of the shard.
	Epoch  int64   `json:"epoch,omitempty"`
	Status *Status `json:"status,omitempty"`
}

// Status is what a member holds.
type Status struct {
	Version int64 `json:"version"`
	// Shards are those that the member holds, with the number of what is active there. Busy are those that it hands over
	// or is about to get.
	Shards map[string]map[int]int `json:"shards"`
	Busy   map[string][]int       `json:"busy"`
}
