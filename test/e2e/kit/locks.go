// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"encoding/json"
	"fmt"
)

// Locks is what the program of test/apps/locks saw.
type Locks struct {
	// Taken and Held count locks that were taken since the start, and that are held now.
	Taken, Held int
	// HeldTwice counts locks that were taken while another entity held them: two incarnations at once. Twice has the first
	// ones.
	HeldTwice int
	Twice     []struct {
		Lock    string
		Holders []string
		Taker   string
	}
	// Pods are the open connections by pod, and Ended has the locks that a pod held when its connection ended.
	Pods, Ended map[string]int
}

// Locks asks the program of test/apps/locks, which runs as a Server.
func (k *Kit) Locks(ctx context.Context, s Server) (*Locks, error) {
	path, err := k.Workloads.Request(ctx, s.Namespace, s.Selector())
	if err != nil {
		return nil, err
	}
	body, err := k.Kube.CoreV1().RESTClient().Get().AbsPath(path, "locks").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking for the locks: %w", err)
	}
	var l Locks
	if err := json.Unmarshal(body, &l); err != nil {
		return nil, fmt.Errorf("reading the locks: %w", err)
	}
	return &l, nil
}
