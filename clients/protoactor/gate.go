// SPDX-License-Identifier: Apache-2.0

package protoactor

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// gate is the address of a grain for its callers. When it is closed, messages come back as dead letters, so that their
// callers try again. Without it, messages that are in the mailbox behind the one that stops the grain would be lost
// without a word.
type gate struct {
	system *actor.ActorSystem
	grain  actor.Process

	mu     sync.RWMutex
	closed bool
}

// openGate registers the gate of a grain, and returns its PID.
func openGate(system *actor.ActorSystem, grain *actor.PID) (*gate, *actor.PID) {
	process, _ := system.ProcessRegistry.GetLocal(grain.GetId())
	g := &gate{system: system, grain: process}
	pid, _ := system.ProcessRegistry.Add(g, grain.GetId()+"/gate")
	return g, pid
}

// close lets no further message pass. Those that have passed are before any later message of the caller in the mailbox.
func (g *gate) close(pid *actor.PID) {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.system.ProcessRegistry.Remove(pid)
}

// SendUserMessage implements actor.Process.
func (g *gate) SendUserMessage(pid *actor.PID, message any) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.closed {
		g.system.DeadLetter.SendUserMessage(pid, message)
		return
	}
	g.grain.SendUserMessage(pid, message)
}

// SendSystemMessage implements actor.Process.
func (g *gate) SendSystemMessage(pid *actor.PID, message any) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.closed {
		g.system.DeadLetter.SendSystemMessage(pid, message)
		return
	}
	g.grain.SendSystemMessage(pid, message)
}

// Stop implements actor.Process.
func (g *gate) Stop(pid *actor.PID) { g.grain.Stop(pid) }
