// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

func rememberedBy(raw []byte) *v1alpha1.CDEventSubject {
	return &v1alpha1.CDEventSubject{Status: v1alpha1.CDEventSubjectStatus{Sequence: 3, Memory: &runtime.RawExtension{Raw: raw}}}
}

func TestPackedMemory(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			raw := fmt.Appendf(nil, `{"announced":true,"baselined":true,"generation":%d,"labels":{"app.kubernetes.io/name":"cart"},"seen":{"route":"%d","service":"7"}}`, i, i)
			s := rememberedBy(bytes.Clone(raw))
			p := Packed(s)
			if n := len(p.Status.Compressed); n > len(raw) || p.Status.Memory != nil || Packed(p) != p {
				t.Errorf("%d bytes take %d", len(raw), n)
			}
			for _, got := range []*v1alpha1.CDEventSubject{s, Unpacked(p), Unpacked(s), contentsOf(p).withMemory(p)} {
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
	for _, s := range []*v1alpha1.CDEventSubject{nil, {}} {
		if Packed(s) != s || Unpacked(s) != s {
			t.Errorf("something comes of %+v", s)
		}
	}
}

// A memory that is not known must never look like one that there never was: its object would be announced again.
func TestUnreadableCompressed(t *testing.T) {
	t.Parallel()
	whole := Packed(rememberedBy([]byte(`{"primary":"cart-00001"}`))).Status.Compressed
	large, err := pack(fmt.Appendf(nil, `{"labels":%q}`, strings.Repeat("a", maxUnpacked)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, compressed := range [][]byte{{7}, large, whole[:len(whole)-1], append(bytes.Clone(whole[:20]), whole[21:]...)} {
		s := &v1alpha1.CDEventSubject{Status: v1alpha1.CDEventSubjectStatus{Compressed: compressed}}
		for _, got := range []*v1alpha1.CDEventSubject{Unpacked(s), contentsOf(s).withMemory(s)} {
			if got.Status.Memory == nil || json.Valid(got.Status.Memory.Raw) || !bytes.Equal(got.Status.Compressed, compressed) {
				t.Errorf("%x became %+v", compressed, got.Status)
			}
		}
		if _, err := contentsOf(s).past(); err == nil || s.Status.Memory != nil {
			t.Errorf("%x has a history: %v", compressed, err)
		}
	}
}

// Any tool can read what is stored.
func TestHistoryIsPackedToo(t *testing.T) {
	t.Parallel()
	s := rememberedBy([]byte(`{"primary": "cart-00001"}`))
	for n := range int64(2) {
		s.Status.History = look(t, s.Status.History, lifecycle.Transition{Sequence: 2 + n, Time: time.Unix(1, 0), Type: lifecycle.Upgraded, Revision: &lifecycle.Revision{Name: "cart-00002"}})
	}
	p := Packed(s)
	if p.Status.History != nil || len(s.Status.History) != 2 {
		t.Errorf("%+v is cached, of %+v", p.Status.History, s.Status.History)
	}
	if got := Unpacked(p); string(got.Status.Memory.Raw) != `{"primary":"cart-00001"}` || !reflect.DeepEqual(got.Status.History, s.Status.History) || got.Status.Compressed != nil {
		t.Errorf("%s, %+v", got.Status.Memory.Raw, got.Status.History)
	}
	r, err := gzip.NewReader(bytes.NewReader(p.Status.Compressed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) != 4 || lines[0] != `{"primary":"cart-00001"}` || !strings.HasPrefix(lines[2], `{"sequence":3,`) || lines[3] != "" {
		t.Errorf("%q", lines)
	}
}
