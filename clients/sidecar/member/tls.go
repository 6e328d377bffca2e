// SPDX-License-Identifier: Apache-2.0

package member

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"time"

	"github.com/knative-cdevents/knative-cdevents/clients/placement"
)

// key is what a process proves that it is the one that registered. It is never stored.
type key struct {
	certificate tls.Certificate
	pin         string
}

func newKey() (*key, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	// Only the key in the certificate is compared.
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(10, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate that was made: %w", err)
	}
	return &key{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private, Leaf: parsed}, pinOf(parsed)}, nil
}

func pinOf(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// PeerOf returns the member that a connection belongs to, as the newest list has it.
func (m *Member) PeerOf(state *tls.ConnectionState) (placement.Peer, bool) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return placement.Peer{}, false
	}
	peer, known := m.view.Load().byPin[pinOf(state.PeerCertificates[0])]
	return peer, known
}

// ServerTLS accepts only members of the newest list.
func (m *Member) ServerTLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{m.key.certificate},
		ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true, NextProtos: []string{"h2", "http/1.1"},
		VerifyConnection: func(state tls.ConnectionState) error {
			if _, known := m.PeerOf(&state); !known {
				return errors.New("the client is not a member of this cluster")
			}
			return nil
		},
	}
}

const (
	dialWithin = 2 * time.Second
	// pingAfter is how long a connection over HTTP/2 may be silent before its member is asked whether it lives, and how
	// long it may take to answer.
	pingAfter = 10 * time.Second
	// mostHeader limits the headers of an answer: those of the container, which may have 1 MiB, and some of a member.
	mostHeader = 1<<20 + 16<<10
)

// Transport reaches other members by their addresses. Each must have the key that it registered.
func (m *Member) Transport(http2 bool) *http.Transport {
	protocols, next := new(http.Protocols), "http/1.1"
	protocols.SetHTTP1(!http2)
	if protocols.SetHTTP2(http2); http2 {
		next = "h2"
	}
	return &http.Transport{
		Protocols: protocols, Proxy: nil, DisableCompression: true, MaxIdleConnsPerHost: 32,
		IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: mostHeader,
		ExpectContinueTimeout: m.options.RequestTimeout,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter},
		DialTLSContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			peer, known := m.view.Load().byAddress[address]
			if !known {
				return nil, fmt.Errorf("member %s is not in the list", address)
			}
			return m.dial(ctx, peer, next)
		},
	}
}

func (m *Member) dial(ctx context.Context, peer placement.Peer, next string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", peer.Address)
	if err != nil {
		return nil, fmt.Errorf("connecting to member %s: %w", peer.Address, err)
	}
	raw = m.hold(raw, peer.Pin)
	conn := tls.Client(raw, &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{m.key.certificate}, NextProtos: []string{next},
		// There is no authority: the key itself is what the member registered.
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection compares the key
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 || pinOf(state.PeerCertificates[0]) != peer.Pin {
				return fmt.Errorf("what answers at %s does not have the key that member %s registered", peer.Address, peer.Pod)
			}
			return nil
		},
	})
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // the handshake's error says more
		return nil, fmt.Errorf("connecting to member %s: %w", peer.Address, err)
	}
	return conn, nil
}

// peerConn is a connection to a member.
type peerConn struct {
	net.Conn
	member *Member
	pin    string
}

// Close implements net.Conn.
func (c *peerConn) Close() error {
	c.member.mu.Lock()
	delete(c.member.conns, c)
	c.member.mu.Unlock()
	return c.Conn.Close() //nolint:wrapcheck // the contract of net.Conn
}

func (m *Member) hold(raw net.Conn, pin string) net.Conn {
	c := &peerConn{raw, m, pin}
	m.mu.Lock()
	m.conns[c] = struct{}{}
	m.mu.Unlock()
	if _, listed := m.view.Load().byPin[pin]; !listed {
		_ = c.Close() // the list has changed since it was looked up
	}
	return c
}

// hangUp closes the connections to processes that are not in the list any more. If the node has gone with the pod,
// nothing else says that no answer will come.
func (m *Member) hangUp() {
	listed := m.view.Load().byPin
	m.mu.Lock()
	var over []*peerConn
	for c := range m.conns {
		if _, there := listed[c.pin]; !there {
			over = append(over, c)
		}
	}
	m.mu.Unlock()
	for _, c := range over {
		_ = c.Close() // its requests fail, as they must
	}
}

const (
	// ProtocolHeader marks messages between members. No other client can set it on a connection between members.
	ProtocolHeader = "Stateful-Protocol"
	mostMessage    = 64 << 10
	mostReply      = 4 << 20
)

// overTLS is the Network that members use.
type overTLS struct{ client *http.Client }

// Call implements Network.
func (o *overTLS) Call(ctx context.Context, to placement.Peer, r placement.Request) (placement.Reply, error) {
	var out placement.Reply
	body, err := json.Marshal(r)
	if err != nil {
		return out, fmt.Errorf("encoding a message: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+to.Address+"/", bytes.NewReader(body))
	if err != nil {
		return out, fmt.Errorf("making a message: %w", err)
	}
	req.Header.Set(ProtocolHeader, "1")
	resp, err := o.client.Do(req)
	if err != nil {
		return out, fmt.Errorf("sending a message: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // a read error is already returned
	if resp.StatusCode != http.StatusOK {
		return out, fmt.Errorf("the status is %s", resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, mostReply)).Decode(&out); err != nil {
		return out, fmt.Errorf("reading the answer: %w", err)
	}
	return out, nil
}

// ServeProtocol answers a message of a member.
func (m *Member) ServeProtocol(w http.ResponseWriter, r *http.Request, from placement.Peer) {
	var in placement.Request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostMessage)).Decode(&in); err != nil {
		http.Error(w, "the message is not valid: "+err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(m.Receive(r.Context(), from, in)) // ignore a client that has disconnected
}
