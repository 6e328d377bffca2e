// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/knative-cdevents/knative-cdevents/clients/sidecar/key"
	"github.com/knative-cdevents/knative-cdevents/clients/sidecar/member"
)

// Headers between members.
const (
	// forwardHeader has the key, in base64, and the version of the plan by which the owner was chosen.
	forwardHeader = "Stateful-Forward"
	// expectHeader: the client expects 100 Continue. Each forwarded request with a body does.
	expectHeader = "Stateful-Expect"
	// elsewhereHeader has the version of a plan, and the member that has the shard instead.
	elsewhereHeader = "Stateful-Elsewhere"
)

// Peer serves what other members send: messages, and forwarded requests.
func (p *Proxy) Peer(w http.ResponseWriter, r *http.Request) {
	from, known := p.o.Member.PeerOf(r.TLS)
	if !known { // it left the list since it has connected, and need not know
		p.problem(w, r, &unavailableError{errors.New("the member where it entered is not a part of the cluster any more")})
		return
	}
	if r.Header.Get(member.ProtocolHeader) != "" {
		p.o.Member.ServeProtocol(w, r, from)
		return
	}
	text, number, _ := strings.Cut(r.Header.Get(forwardHeader), " ")
	raw, err := base64.StdEncoding.DecodeString(text)
	version, versionErr := strconv.ParseInt(number, 10, 64)
	if err != nil || versionErr != nil || len(raw) == 0 || len(raw) > key.MaxLength {
		http.Error(w, "the request is not one that a member forwards", http.StatusBadRequest)
		return
	}
	expects := r.Header.Get(expectHeader) != ""
	if !expects {
		r.Header.Del("Expect")
	}
	strip(r.Header)
	leave := p.enter(w, r)
	if leave == nil {
		return
	}
	defer leave()
	p.serve(w, r, &request{
		key: string(raw), shard: p.o.ShardOf(string(raw), p.o.Shards), version: version, from: from.Revision,
		forwarded: true, expects: expects, begun: time.Now(),
	})
}

// handleForwarded handles a request that another member has sent here, or says that this is not the place.
func (p *Proxy) handleForwarded(r *http.Request, s *request) (*http.Response, error) {
	ctx, cancel := context.WithDeadlineCause(r.Context(), s.begun.Add(p.o.Patience), p.impatient())
	defer cancel()
	visit, reply, err := p.admit(ctx, r.Context(), s, s.version)
	if visit != nil {
		return p.handle(r, s)
	}
	if err := r.Context().Err(); err != nil {
		return nil, err //nolint:wrapcheck // the caller's
	}
	if err != nil {
		return nil, &unavailableError{err}
	}
	return nil, &elsewhereError{reply}
}
