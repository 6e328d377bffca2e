// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/advice"
	"github.com/knative-cdevents/knative-cdevents/cli/reader"
	"github.com/knative-cdevents/knative-cdevents/cli/screen"
)

const (
	// testType is a custom event of CDEvents, so that receivers do not mistake it for a change of a Service.
	testType = "dev.cdeventsx.knative-source.tested.0.1.0"
	// testExtension marks the event for those who look at attributes only.
	testExtension = "cdeventstest"
	// cdeventsVersion is that of the specification.
	cdeventsVersion = "0.5.1"
)

// The ways from this machine to a sink.
const (
	viaAuto   = "auto"
	viaDirect = "direct"
	viaProxy  = "proxy"
)

// sent is what -o json prints.
type sent struct {
	Source string `json:"source"`
	Sink   string `json:"sink"`
	ID     string `json:"id"`
	Type   string `json:"type"`
	// Via is direct or proxy, and Address where the request went.
	Via     string `json:"via"`
	Address string `json:"address"`
	// Status and Answer are the sink's.
	Status   int      `json:"status"`
	Answer   string   `json:"answer,omitempty"`
	Took     string   `json:"took"`
	Accepted bool     `json:"accepted"`
	Notes    []string `json:"notes,omitempty"`
}

func (e *env) testEvent() *cobra.Command {
	var via string
	timeout := time.Duration(0)
	c := &cobra.Command{
		Use:   "test-event SOURCE",
		Short: "Send a marked event to a source's sink from this machine, and show what the sink answers",
		Long: "Sends one event to the address that the source's sink has now, with the source's ceOverrides and format, and\n" +
			"shows the answer. The event is marked: its type is " + testType + ",\n" +
			"its extension " + testExtension + " is true, and its customData say so, too.\n\n" +
			"The event goes from this machine, not from the controller: it tells whether the sink takes events, and not whether\n" +
			"the controller's network reaches it. It carries no credentials of the source. A sink inside the cluster gets it\n" +
			"through the API server, for which you need the right to create services/proxy there.",
		Example:           "  kubectl cdevents test-event releases -n shop\n  kubectl cdevents test-event releases --via direct",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: e.completeSources,
	}
	c.Flags().StringVar(&via, "via", viaAuto, "The way to the sink: direct, proxy (through the API server), or auto, which takes "+
		"the proxy for names inside the cluster")
	c.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "How long to wait for the answer")
	must(c.RegisterFlagCompletionFunc("via", cobra.FixedCompletions(
		[]string{viaAuto, viaDirect, viaProxy}, cobra.ShellCompDirectiveNoFileComp)))
	o := addOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		p, err := o.printer()
		if err != nil {
			return err
		}
		if !slices.Contains([]string{viaAuto, viaDirect, viaProxy}, via) {
			return misused("--via is %q; it must be auto, direct or proxy", via)
		}
		if timeout <= 0 {
			return misused("--timeout is %s; it must be a duration such as 30s", timeout)
		}
		namespace, err := e.namespace()
		if err != nil {
			return err
		}
		r, err := e.reader()
		if err != nil {
			return err
		}
		s, err := r.Source(c.Context(), namespace, args[0])
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), timeout)
		defer cancel()
		t, err := e.test(ctx, r, s, via)
		if err != nil {
			return err
		}
		if err := e.give(o, p, answer{kind: "TestEvent", value: t, show: func() { e.showSent(t) }}); err != nil {
			return err
		}
		if !t.Accepted {
			return no("the sink did not accept the event")
		}
		return nil
	}
	return c
}

// test sends an event to the sink of a source.
func (e *env) test(ctx context.Context, r *reader.Reader, s *v1alpha1.CDEventSource, via string) (*sent, error) {
	if s.Status.SinkURI == nil {
		f := e.clock().Source(s)
		if f.State == advice.Works {
			f.What = "it has no address of its sink"
		}
		return nil, no("%s/%s: %s; %s", s.Namespace, s.Name, f.What, f.Do)
	}
	to := s.Status.SinkURI.URL()
	if to.Scheme != "http" && to.Scheme != "https" {
		return nil, misused("the sink %s is not reached over HTTP, and test-event sends over HTTP only", to.Redacted())
	}
	t := &sent{
		Source: s.Namespace + "/" + s.Name, Sink: to.Redacted(), ID: uuid.NewString(), Type: testType, Via: via,
	}
	header, body, err := t.event(s, e.Now())
	if err != nil {
		return nil, err
	}
	if s.Spec.Auth != nil || s.Status.SinkAudience != nil {
		t.Notes = append(t.Notes, "the source authenticates to its sink, and this event does not: a 401 or 403 says nothing about the source")
	}
	if to.User != nil {
		to.User = nil
		t.Notes = append(t.Notes, "the address has credentials, and this event does not: a 401 or 403 says nothing about the source")
	}
	name, namespace, inside := clusterService(to.Hostname())
	if via == viaAuto {
		if t.Via = viaDirect; inside {
			t.Via = viaProxy
		}
	}
	if t.Via == viaProxy {
		if !inside {
			return nil, misused("--via proxy: %s is not the name of a Service inside the cluster", to.Hostname())
		}
		if ref := s.Spec.Sink.Ref; ref != nil && strings.HasPrefix(ref.APIVersion, "serving.knative.dev/") {
			public, err := e.public(ctx, r, s.Namespace, ref.Name)
			if err != nil {
				return nil, err
			}
			t.Via, to.Scheme, to.Host = viaDirect, public.Scheme, public.Host
			t.Notes = append(t.Notes, "the API server does not lead to Knative Services, so the event went to the public address of this one")
		}
	}
	var got *reader.Answer
	var took time.Duration
	if t.Via == viaProxy {
		path := proxyPath(namespace, name, to)
		t.Address = path
		if got, took, err = r.Call(ctx, http.MethodPost, path, header, body); err == nil {
			err = ofAPIServer(got)
		}
	} else {
		t.Address = to.Redacted()
		got, took, err = sendDirectly(ctx, s, to, header, body)
	}
	if err != nil {
		return nil, fmt.Errorf("no answer of the sink (from this machine, %s): %w", t.Via, err)
	}
	t.Status, t.Answer, t.Took = got.Status, strings.TrimSpace(got.Body), took.Round(time.Millisecond).String()
	t.Accepted = got.Status >= 200 && got.Status < 300
	return t, nil
}

// public returns the address of a Knative Service outside of the cluster.
func (*env) public(ctx context.Context, r *reader.Reader, namespace, name string) (*url.URL, error) {
	service, err := r.Service(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	if service.Status.URL == nil {
		return nil, fmt.Errorf("Knative Service %s has no address yet", name) //nolint:staticcheck // a name
	}
	if _, _, inside := clusterService(service.Status.URL.Host); inside {
		return nil, fmt.Errorf("Knative Service %s has no address outside of the cluster, and the API server does not lead to "+ //nolint:staticcheck // a name
			"Knative Services; send an event from a pod instead", name)
	}
	return service.Status.URL.URL(), nil
}

// event returns the request with the event, in the format of the source.
func (t *sent) event(s *v1alpha1.CDEventSource, now time.Time) (http.Header, []byte, error) {
	at := now.UTC().Format(time.RFC3339Nano)
	origin := "urn:kubectl-cdevents:test"
	subject := "source/" + s.Namespace + "/" + s.Name
	data := map[string]any{
		"context": map[string]any{
			"specversion": cdeventsVersion, "id": t.ID, "source": origin, "type": testType, "timestamp": at,
		},
		"subject":               map[string]any{"id": subject, "content": map[string]any{}},
		"customData":            map[string]any{"test": true, "note": "Sent by kubectl cdevents test-event. Nothing happened."},
		"customDataContentType": "application/json",
	}
	attributes := map[string]string{
		"specversion": "1.0", "id": t.ID, "source": origin, "type": testType, "subject": subject, "time": at,
	}
	if s.Spec.CloudEventOverrides != nil {
		maps.Copy(attributes, s.Spec.CloudEventOverrides.Extensions)
	}
	attributes[testExtension] = "true"
	header := http.Header{"User-Agent": {"kubectl-cdevents"}}
	body := any(data)
	if d := s.Spec.Delivery; d != nil && d.Format != nil && *d.Format == eventingduckv1.DeliveryFormatJson {
		whole := map[string]any{"datacontenttype": "application/json", "data": data}
		for name, value := range attributes {
			whole[name] = value
		}
		body = whole
		header.Set("Content-Type", "application/cloudevents+json; charset=utf-8")
	} else {
		header.Set("Content-Type", "application/json")
		for name, value := range attributes {
			header.Set("Ce-"+name, strings.ReplaceAll(url.PathEscape(value), "%2F", "/"))
		}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, nil, fmt.Errorf("writing the event: %w", err)
	}
	return header, raw, nil
}

// clusterService reads the name of a Service inside the cluster, such as broker.shop.svc.cluster.local.
func clusterService(host string) (name, namespace string, is bool) {
	parts := strings.Split(host, ".")
	if len(parts) < 3 || parts[2] != "svc" {
		return "", "", false
	}
	return parts[0], parts[1], true
}

// proxyPath is the path at the API server that leads to a Service.
func proxyPath(namespace, name string, to *url.URL) string {
	port, scheme := to.Port(), ""
	if to.Scheme == "https" {
		scheme = "https:"
	}
	if port == "" {
		if port = "80"; scheme != "" {
			port = "443"
		}
	}
	path := fmt.Sprintf("/api/v1/namespaces/%s/services/%s%s:%s/proxy/%s", namespace, scheme, name, port,
		strings.TrimPrefix(to.EscapedPath(), "/"))
	if to.RawQuery != "" {
		path += "?" + to.RawQuery
	}
	return path
}

// ofAPIServer returns an answer of the API server itself as an error.
func ofAPIServer(a *reader.Answer) error {
	var status metav1.Status
	if a.Status < 400 || json.Unmarshal([]byte(a.Body), &status) != nil || status.Kind != "Status" {
		return nil //nolint:nilerr // it is the answer of the sink
	}
	err := &apierrors.StatusError{ErrStatus: status}
	if apierrors.IsForbidden(err) {
		return errors.Join(err, errors.New("ask an operator for the right to create services/proxy there, or use --via direct"))
	}
	return err
}

func sendDirectly(
	ctx context.Context, s *v1alpha1.CDEventSource, to *url.URL, header http.Header, body []byte,
) (*reader.Answer, time.Duration, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	if ca := s.Status.SinkCACerts; ca != nil && *ca != "" {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool() // the sink's own are enough
		}
		roots.AppendCertsFromPEM([]byte(*ca))
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return reader.Do(ctx, client, http.MethodPost, to.String(), header, body)
}

func (e *env) showSent(t *sent) {
	s := e.Screen
	way := "from this machine, not from the controller"
	if t.Via == viaProxy {
		way = "from this machine through the API server, not from the controller"
	}
	s.Printf("source   %s\n", t.Source)
	s.Wrapped(screen.Text("sent     "), fmt.Sprintf("%s %s, %s", t.Type, t.ID, way))
	s.Wrapped(screen.Text("to       "), t.Address)
	style := screen.Good
	if !t.Accepted {
		style = screen.Bad
	}
	s.Printf("answer   %s after %s\n", s.Paint(style, fmt.Sprintf("%d %s", t.Status, http.StatusText(t.Status))), t.Took)
	if t.Answer != "" {
		line, _, more := strings.Cut(t.Answer, "\n")
		if more {
			line += " …"
		}
		s.Wrapped(screen.Text("         "), line)
	}
	for _, n := range t.Notes {
		s.Wrapped(screen.Text("note     "), n)
	}
}
