// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"fmt"
	"math/rand"
	"sync"
	"testing"
)

// Memories of any size come back whole, even if broken ones are unpacked with the same pooled readers.
func TestPackedMemoriesOfAnySize(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for seed := range int64(8) {
		all.Go(func() {
			rnd := rand.New(rand.NewSource(seed))
			for range 20 {
				random := make([]byte, 2+rnd.Intn(20_000))
				_, _ = rnd.Read(random)
				raw := fmt.Appendf(nil, `{"labels":"%x"}`, random)
				p := Packed(rememberedBy(raw))
				if got := Unpacked(p).Status.Memory.Raw; !bytes.Equal(got, raw) {
					t.Errorf("%d bytes became %d", len(raw), len(got))
				}
				broken := bytes.Clone(p.Status.Compressed)[:1+len(p.Status.Compressed)/2]
				if _, err := gunzip(broken); err == nil {
					t.Error("half of it can be unpacked")
				}
			}
		})
	}
	all.Wait()
}
