// SPDX-License-Identifier: Apache-2.0

package plural_test

import (
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/plural"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want string }{
		{plural.Of(0, "shard", "shards"), "0 shards"},
		{plural.Of(int32(1), "replica is", "replicas are"), "1 replica is"},
		{plural.Of(int64(2106), "event", "events"), "2106 events"},
		{plural.Of(1.4, "request", "requests"), "1 request"},
		{plural.Of(0.4, "request", "requests"), "0 requests"},
		{plural.Word(1, "is", "are") + ", " + plural.Word(3, "is", "are"), "is, are"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
