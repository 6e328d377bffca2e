// SPDX-License-Identifier: Apache-2.0

package protoactor

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// actorName is the name of the placement actor of each member.
const actorName = "knative-placement"

// request is a message between placement actors, as JSON in a StringValue: there are few of them. One field is set.
type request struct {
	Activate *activate `json:"activate,omitempty"`
	Claim    *claim    `json:"claim,omitempty"`
	Take     *take     `json:"take,omitempty"`
	Status   bool      `json:"status,omitempty"`
	// Released and Left are not answered.
	Released *released `json:"released,omitempty"`
	Left     *left     `json:"left,omitempty"`
}

// shardID names a shard.
type shardID struct {
	Kind  string `json:"kind"`
	Shard int    `json:"shard"`
}

func (s shardID) String() string { return fmt.Sprintf("%s/%d", s.Kind, s.Shard) }

// activate asks for the grain of an identity. Version is that of the plan by which the caller chose the member.
type activate struct {
	shardID
	Identity string `json:"identity"`
	Version  int64  `json:"version"`
}

// claim asks a member to agree that another one gets a shard.
type claim struct {
	shardID
	From    string `json:"from"`
	Version int64  `json:"version"`
	// Move asks the member that holds the shard to hand it over. Otherwise, it keeps it and says so.
	Move bool `json:"move,omitempty"`
}

// take tells a member to get a shard from the one that holds it.
type take struct {
	shardID
	Holder  string `json:"holder"`
	Version int64  `json:"version"`
}

// released says that a member does not hold a shard any more.
type released struct {
	shardID
	From string `json:"from"`
	To   string `json:"to,omitempty"`
}

// left says that a member hands all its shards over, or, if Done, that it has.
type left struct {
	ID   string `json:"id"`
	Done bool   `json:"done,omitempty"`
}

// reply answers a request.
type reply struct {
	// Error says what is wrong with the request.
	Error string `json:"error,omitempty"`
	// Granted: the member agrees to the claim, or takes the shard.
	Granted bool `json:"granted,omitempty"`
	// PID is the id of the grain at the member that answers.
	PID string `json:"pid,omitempty"`
	// Holder is the member to ask instead, and Version that of the plan that says so. Empty: try again later.
	Holder  string `json:"holder,omitempty"`
	Version int64  `json:"version,omitempty"`
	// After is how long the claimer must wait for members that left without a word.
	After  time.Duration `json:"after,omitempty"`
	Status *status       `json:"status,omitempty"`
}

// status is what a member holds.
type status struct {
	Version int64 `json:"version"`
	// Shards are those that the member holds, with the number of their grains. Busy are those that it hands over or is
	// about to get.
	Shards map[string]map[int]int `json:"shards"`
	Busy   map[string][]int       `json:"busy"`
}

func encode(v any) *wrapperspb.StringValue {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return wrapperspb.String(string(data))
}

// call sends a request to the placement actor at an address, and waits for the reply.
func call(system *actor.ActorSystem, address string, r request, timeout time.Duration) (reply, error) {
	pid := actor.NewPID(address, actorName)
	got, err := system.Root.RequestFuture(pid, encode(r), timeout).Result()
	if err != nil {
		return reply{}, fmt.Errorf("asking member %s: %w", address, err)
	}
	text, ok := got.(*wrapperspb.StringValue)
	if !ok {
		return reply{}, fmt.Errorf("asking member %s: the answer is a %T, not a string: is it the same library?", address, got)
	}
	var out reply
	if err := json.Unmarshal([]byte(text.GetValue()), &out); err != nil {
		return reply{}, fmt.Errorf("asking member %s: reading the answer: %w", address, err)
	}
	if out.Error != "" {
		return out, fmt.Errorf("member %s: %s", address, out.Error)
	}
	return out, nil
}
