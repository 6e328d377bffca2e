package ledger

import (
	"bytes"
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
				raw := make([]byte, 2+rnd.Intn(30_000))
				_, _ = rnd.Read(raw)
				raw[0] = '{'
				p := Packed(remembering(raw))
				if got := unpacked(p).Status.Memory.Raw; !bytes.Equal(got, raw) {
					t.Errorf("%d bytes became %d", len(raw), len(got))
				}
				broken := bytes.Clone(p.Status.Memory.Raw)[:1+len(p.Status.Memory.Raw)/2]
				unpacked(remembering(broken))
			}
		})
	}
	all.Wait()
}
