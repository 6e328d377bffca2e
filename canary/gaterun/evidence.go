// SPDX-License-Identifier: Apache-2.0

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
	"github.com/knative-cdevents/knative-cdevents/canary/traffic"
)

const (
	// maxEvidence leaves room for the rest of the object: etcd accepts 1.5 MiB.
	maxEvidence = 1280 << 10
	// maxPlain is the largest evidence that is stored as readable JSON.
	maxPlain = 16 << 10
	// maxUnpacked limits the memory that a forged status can use.
	maxUnpacked = 64 << 20
)

// evidence is the state from which a run continues.
type evidence struct {
	Run *judge.Run `json:"run"`
	// At is the end of the last window, and From the counts at that time.
	At   time.Time            `json:"at"`
	From attribution.Snapshot `json:"from"`
	// Sharded is set when the run starts, and never changes.
	Sharded bool `json:"sharded,omitempty"`
	// Overdue is the most overdue requests that each Revision had at once. A late
	// answer does not reduce it.
	Overdue map[types.UID]float64 `json:"overdue,omitempty"`
	// Lacking is why the handled requests of a Revision are unknown.
	Lacking string `json:"lacking,omitempty"`
	// Seen describes what the application exports instead.
	Seen string `json:"seen,omitempty"`
	// LostPods counts pods that disappeared between two scrapes, so their last requests are unknown.
	LostPods int `json:"lostPods,omitempty"`
	// Queries is what the operator's queries have returned, by metric. QueryLacks is why one of them cannot be judged, and
	// QuerySays tells a person.
	Queries    map[string]*queried `json:"queries,omitempty"`
	QueryLacks string              `json:"queryLacks,omitempty"`
	QuerySays  string              `json:"querySays,omitempty"`
	// Traffic is what both sides did over time. Nothing is judged by it, and it stays when the run has ended.
	Traffic *traffic.Record `json:"traffic,omitempty"`
}

// packed is the stored form of large evidence. Only here is anything compressed.
type packed struct {
	Gzip []byte `json:"gzip"`
}

func pack(e *evidence) (*runtime.RawExtension, error) {
	plain, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("writing the evidence: %w", err)
	}
	if len(plain) <= maxPlain {
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
		return nil, problem(EvidenceTooLarge,
			"the compressed evidence has %d bytes, and at most %d are allowed: the Service has too many pods or shards",
			len(raw), maxEvidence)
	}
	return &runtime.RawExtension{Raw: raw}, nil
}

// unpack returns nil if the run has no evidence yet.
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
