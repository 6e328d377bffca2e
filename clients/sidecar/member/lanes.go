// SPDX-License-Identifier: Apache-2.0

package member

import "sync"

// lanes run functions, of each name only so many at a time. The others wait in order, and need no goroutine.
type lanes struct {
	most int

	mu sync.Mutex
	of map[string]*lane
}

type lane struct {
	busy    int
	waiting []func()
}

// run returns at once.
func (l *lanes) run(name string, f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.of[name]
	if one == nil {
		one = &lane{}
		l.of[name] = one
	}
	if one.busy == l.most {
		one.waiting = append(one.waiting, f)
		return
	}
	one.busy++
	go func() {
		for ; f != nil; f = l.next(name, one) {
			f()
		}
	}()
}

// next returns what waits longest in a lane, or nil, and then one function less runs there.
func (l *lanes) next(name string, one *lane) (f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(one.waiting) > 0 {
		f, one.waiting = one.waiting[0], one.waiting[1:]
		return f
	}
	if one.busy--; one.busy == 0 {
		delete(l.of, name)
	}
	return nil
}
