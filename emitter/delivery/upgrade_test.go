// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"knative.dev/pkg/apis"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials/clientset"
	httptransport "github.com/knative-cdevents/knative-cdevents/emitter/transport/http"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/trust"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// TestUpgradeSendsJournaledEvents takes over the journal of each former rendering version, and
// sends exactly the bytes that the former version would have sent.
func TestUpgradeSendsJournaledEvents(t *testing.T) {
	journals, err := filepath.Glob("../cdevents/testdata/journaled/*/subject.json")
	if err != nil || len(journals) != cdevents.Rendering {
		t.Fatalf("%q, %v", journals, err)
	}
	for _, file := range journals {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			t.Parallel()
			var subject v1alpha1.CDEventSubject
			raw, err := os.ReadFile(file)
			if err == nil {
				err = json.Unmarshal(raw, &subject)
			}
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(filepath.Join(filepath.Dir(file), "events.txt"))
			if err != nil {
				t.Fatal(err)
			}
			sent := deliverAll(t, &subject)
			for _, text := range strings.Split(strings.TrimSpace(string(want)), "\n\n### ") {
				title, request, _ := strings.Cut(strings.TrimPrefix(text, "### "), "\n")
				if got := sent[title]; got != request {
					t.Errorf("%s: want\n%s\ngot\n%s", title, request, got)
				}
				delete(sent, title)
			}
			for title, request := range sent {
				t.Errorf("%s was not pending:\n%s", title, request)
			}
		})
	}
}

// overHTTP returns a transport to loopback addresses.
func overHTTP(kube kubernetes.Interface) transport.Transport {
	return httptransport.NewClients(transport.Access{
		Addresses:   transport.Addresses{Allowed: loopback},
		Credentials: credentials.NewKeeper(clientset.API{Interface: kube}, httptransport.Schemes), Trust: trust.New(),
	})
}

// loopback holds the addresses of the tests' sinks.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// deliverAll sends all pending events of a journal and returns the requests.
func deliverAll(t *testing.T, subject *v1alpha1.CDEventSubject) map[string]string {
	t.Helper()
	var mu sync.Mutex
	sent, n := map[string]string{}, map[string]int64{}
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		source := strings.TrimPrefix(r.URL.Path, "/")
		n[source]++
		sent[fmt.Sprint(n[source], " to ", source)] = asWritten(t, r.Header) + "\n\n" + string(body)
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(sink.Close)

	subjects := store.New()
	written, err := subjects.Create(t.Context(), subject, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	said := &transcript{}
	s := &stage{store: subjects, cancel: cancel}
	s.ledger = ledger.New(subjects, &route.Router{}, said)
	s.Delivery = New(ctx, Options{
		Ledger: s.ledger, Transport: overHTTP(fake.NewClientset()),
		Render: cdevents.Render, Metrics: said, WorkersPerSource: 1,
		Leader: always,
	})
	s.ledger.UseDelivery(routed{s.Delivery, t})
	t.Cleanup(func() { cancel(); s.Wait() })
	s.ledger.Observe(written)
	for uid := range s.ledger.Backlogs() {
		source := sourceTo(string(uid), "")
		source.UID = uid
		if source.Status.SinkURI, err = apis.ParseURL(sink.URL + "/" + string(uid)); err != nil {
			t.Fatal(err)
		}
		s.UpdateSource(source)
	}
	for end := time.Now().Add(30 * time.Second); len(s.ledger.Backlogs()) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still pending: %v; %s", s.ledger.Backlogs(), said)
		}
	}
	return sent
}

// asWritten formats the headers that hold the event's attributes, in the order of the files.
func asWritten(t *testing.T, header http.Header) string {
	t.Helper()
	names := []string{"Ce-Specversion", "Ce-Id", "Ce-Source", "Ce-Type", "Ce-Subject", "Ce-Time"}
	var more []string
	for name := range header {
		if strings.HasPrefix(name, "Ce-") && !slices.Contains(names, name) {
			more = append(more, name)
		}
	}
	slices.Sort(more)
	lines := make([]string, 0, len(header))
	for _, name := range slices.Concat(names, more, []string{"Content-Type"}) {
		value, err := url.PathUnescape(header.Get(name))
		if err != nil {
			t.Error(err)
		}
		lines = append(lines, name+": "+value)
	}
	return strings.Join(lines, "\n")
}
