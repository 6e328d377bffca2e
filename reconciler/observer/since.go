// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// UntilKnown asks since when objects of a kind are announced until there is an answer, which the ledger keeps. An
// object that appears later is then news.
func UntilKnown(ctx context.Context, since func(context.Context) (time.Time, error)) {
	_ = wait.PollUntilContextCancel(ctx, retryAfter, true, func(ctx context.Context) (bool, error) { // ends with an error only with ctx
		_, err := since(ctx)
		return err == nil, nil
	})
}
