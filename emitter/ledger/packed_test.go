package ledger

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

func remembering(raw []byte) *v1alpha1.CDEventSubject {
	return &v1alpha1.CDEventSubject{Status: v1alpha1.CDEventSubjectStatus{Sequence: 3, Memory: &runtime.RawExtension{Raw: raw}}}
}

func TestPackedMemory(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			raw := fmt.Appendf(nil, `{"announced":true,"baselined":true,"generation":%d,"labels":{"app.kubernetes.io/name":"cart"},"seen":{"route":"%d","service":"7"}}`, i, i)
			s := remembering(bytes.Clone(raw))
			p := Packed(s)
			if n := len(p.Status.Memory.Raw); 2*n > len(raw) || Packed(p) != p {
				t.Errorf("%d bytes take %d", len(raw), n)
			}
			for _, got := range []*v1alpha1.CDEventSubject{s, unpacked(p), unpacked(s)} {
				if !bytes.Equal(got.Status.Memory.Raw, raw) || got.Status.Sequence != 3 {
					t.Errorf("%s became %s", raw, got.Status.Memory.Raw)
				}
			}
		})
	}
	all.Wait()
}

func TestNothingToPack(t *testing.T) {
	t.Parallel()
	for _, s := range []*v1alpha1.CDEventSubject{nil, {}, remembering(nil)} {
		if Packed(s) != s || unpacked(s) != s {
			t.Errorf("something comes of %+v", s)
		}
	}
	if broken := remembering([]byte{packedMark, 7}); unpacked(broken) != broken {
		t.Error("a memory that cannot be unpacked is not left to whoever decodes it")
	}
}

func TestHistoryIsPackedToo(t *testing.T) {
	t.Parallel()
	s := remembering([]byte(`{"primary":"cart-00001"}`))
	s.Status.History = look(nil, lifecycle.Transition{Sequence: 3, Time: time.Unix(1, 0), Type: lifecycle.Upgraded, Revision: &lifecycle.Revision{Name: "cart-00002"}})
	p := Packed(s)
	if p.Status.History != nil || len(s.Status.History) != 1 {
		t.Errorf("%+v is cached, of %+v", p.Status.History, s.Status.History)
	}
	if got := unpacked(p); string(got.Status.Memory.Raw) != `{"primary":"cart-00001"}` || len(got.Status.History) != 1 || got.Status.History[0].Revision != "cart-00002" {
		t.Errorf("%s, %+v", got.Status.Memory.Raw, got.Status.History)
	}
}
