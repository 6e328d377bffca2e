package gaterun

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
)

// Evidence must leave room in an object of at most 1.5 MiB for all that is beside it.
const (
	maxEvidence = 1280 << 10
	// plainly is up to which size it stays readable for people.
	plainly = 16 << 10
	// maxUnpacked bounds what a status that somebody wrote can make of our memory.
	maxUnpacked = 64 << 20
)

// evidence is what judging goes on from.
type evidence struct {
	Run *judge.Run `json:"run"`
	// At is when the last window ended, and From what had been counted until then.
	At   time.Time            `json:"at"`
	From attribution.Snapshot `json:"from"`
	// Sharded is decided once.
	Sharded bool `json:"sharded,omitempty"`
	// Overdue is the most that either side had unanswered at once: a request that was
	// answered after all was still answered too late.
	Overdue map[types.UID]float64 `json:"overdue,omitempty"`
	// Lacking is why what one side handles is not known.
	Lacking string `json:"lacking,omitempty"`
	// Seen is what was seen instead, in words.
	Seen string `json:"seen,omitempty"`
	// LostPods went while nobody counted; what they did at last is not known.
	LostPods int `json:"lostPods,omitempty"`
}

// packed is how evidence is written that is too large to be read by people.
type packed struct {
	Gzip []byte `json:"gzip"`
}

func pack(e *evidence) (*runtime.RawExtension, error) {
	plain, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("writing the evidence: %w", err)
	}
	if len(plain) <= plainly {
		return &runtime.RawExtension{Raw: plain}, nil
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(plain); err != nil {
		return nil, fmt.Errorf("packing the evidence: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("packing the evidence: %w", err)
	}
	raw, err := json.Marshal(packed{Gzip: b.Bytes()})
	if err != nil {
		return nil, fmt.Errorf("writing the evidence: %w", err)
	}
	if len(raw) > maxEvidence {
		return nil, problem(EvidenceTooLarge, "the compressed evidence has %d bytes, and at most %d are allowed: the Service has too many pods or shards", len(raw), maxEvidence)
	}
	return &runtime.RawExtension{Raw: raw}, nil
}

// unpack returns nil where nothing was gathered yet.
func unpack(raw *runtime.RawExtension) (*evidence, error) {
	if raw == nil || len(raw.Raw) == 0 {
		return nil, nil //nolint:nilnil // none is not an error
	}
	plain := raw.Raw
	var p packed
	if err := json.Unmarshal(plain, &p); err != nil {
		return nil, fmt.Errorf("reading the evidence: %w", err)
	}
	if len(p.Gzip) > 0 {
		r, err := gzip.NewReader(bytes.NewReader(p.Gzip))
		if err != nil {
			return nil, fmt.Errorf("unpacking the evidence: %w", err)
		}
		if plain, err = io.ReadAll(io.LimitReader(r, maxUnpacked)); err != nil {
			return nil, fmt.Errorf("unpacking the evidence: %w", err)
		}
	}
	e := &evidence{}
	if err := json.Unmarshal(plain, e); err != nil {
		return nil, fmt.Errorf("reading the evidence: %w", err)
	}
	if e.Run == nil {
		return nil, problem(EvidenceUnreadable, "the evidence does not contain what was judged so far")
	}
	return e, nil
}
