package ledger

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// What an object is remembered by is most of a CDEventSubject, and seldom needed. Cached CDEventSubjects have it compressed.

// packedMark begins a packed memory, and packedBoth a memory with its history behind it. No JSON begins with them.
const (
	packedMark = 1
	packedBoth = 2
)

// common is text that many memories have. Its end costs least. A change of it is no change of anything that is stored.
const common = `{"healthy":true,"removed":true,"trouble":{},"cluster":{"members":,"settled":true,"state":"ready"},"placement":{},"annotations":{},` +
	`"namespaceLabels":{"kubernetes.io/metadata.name":"default"},"labels":{"app.kubernetes.io/managed-by":"","app.kubernetes.io/name":"",` +
	`"app.kubernetes.io/part-of":"","app.kubernetes.io/component":"","app.kubernetes.io/version":""},"announced":true,"baselined":true,"deployed":true,` +
	`"published":true,"generation":1,"primary":"","primaries":[{}],"seen":{"domains":"","route":"","service":""},` +
	`"traffic":[{"percent":100,"revision":"-00001"}],"urls":["http://.example.com","https://.svc.cluster.local"],` +
	`"revisions":{"-00001":{"generation":1,"images":[{"container":"user-container","digest":"registry/@sha256:0123456789abcdef",` +
	`"image":"registry.example.com/:latest"}],"name":"-00001","ready":true,"template":"","uid":""}`

// packers are *flate.Writer, each of which takes several hundred kilobytes; unpackers are flate.Resetter.
var packers, unpackers sync.Pool

// separator stands between a packed memory and the history, which is packed with it. JSON does not contain it.
const separator = 0

func remembers(s *v1alpha1.CDEventSubject) bool {
	return s != nil && s.Status.Memory != nil && len(s.Status.Memory.Raw) > 0
}

func isPacked(raw []byte) bool { return raw[0] == packedMark || raw[0] == packedBoth }

// Packed returns a CDEventSubject as it is to be cached: the same one, or a copy that shares everything but the memory and the history.
func Packed(s *v1alpha1.CDEventSubject) *v1alpha1.CDEventSubject {
	if !remembers(s) || isPacked(s.Status.Memory.Raw) {
		return s
	}
	raw, mark := s.Status.Memory.Raw, byte(packedMark)
	if len(s.Status.History) > 0 {
		history, err := json.Marshal(s.Status.History)
		if err != nil {
			return s // it was read from JSON
		}
		raw, mark = slices.Concat(raw, []byte{separator}, history), packedBoth
	}
	packed, err := pack(raw, mark)
	if err != nil {
		return s // a buffer never refuses
	}
	out := *s
	out.Status.Memory, out.Status.History = &runtime.RawExtension{Raw: packed}, nil
	join(&out)
	return &out
}

func pack(raw []byte, mark byte) ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte(mark)
	w, known := packers.Get().(*flate.Writer)
	if known {
		w.Reset(&out)
	} else {
		var err error
		if w, err = flate.NewWriterDict(&out, flate.DefaultCompression, []byte(common)); err != nil {
			return nil, fmt.Errorf("preparing to compress: %w", err)
		}
	}
	defer packers.Put(w)
	if _, err := w.Write(raw); err != nil {
		return nil, fmt.Errorf("compressing: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compressing the end: %w", err)
	}
	return bytes.Clone(out.Bytes()), nil
}

// unpacked returns a CDEventSubject as it is written: the same one, or a copy that shares everything but the memory and the history. A
// memory that cannot be unpacked stays as it is, and whoever decodes it reports that.
func unpacked(s *v1alpha1.CDEventSubject) *v1alpha1.CDEventSubject {
	if !remembers(s) || !isPacked(s.Status.Memory.Raw) {
		return s
	}
	raw, err := unpack(s.Status.Memory.Raw)
	if err != nil {
		return s
	}
	out := *s
	if s.Status.Memory.Raw[0] == packedBoth {
		memory, history, _ := bytes.Cut(raw, []byte{separator})
		if json.Unmarshal(history, &out.Status.History) != nil {
			return s
		}
		raw = slices.Clip(memory)
	}
	out.Status.Memory = &runtime.RawExtension{Raw: raw}
	return &out
}

func unpack(packed []byte) ([]byte, error) {
	from := bytes.NewReader(packed[1:])
	r, known := unpackers.Get().(io.Reader)
	if known {
		if again, ok := r.(flate.Resetter); !ok || again.Reset(from, []byte(common)) != nil {
			known = false
		}
	}
	if !known {
		r = flate.NewReaderDict(from, []byte(common))
	}
	defer unpackers.Put(r)
	out, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("decompressing: %w", err)
	}
	return out, nil
}
