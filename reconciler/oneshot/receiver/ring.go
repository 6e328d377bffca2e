// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/knative-cdevents/knative-cdevents/reconciler/authserver"
	"github.com/knative-cdevents/knative-cdevents/reconciler/oneshot"
)

// maxBody limits the size of a body, and bodyWithin the time to read it. A reference has some hundred bytes. Mode
// Resource sends the object, which may have 1.5 MiB; what is larger than this, a sweep finds.
const (
	maxBody    = 512 << 10
	bodyWithin = 5 * time.Second
)

// The types of rings: those of ApiServerSource in both modes, and that of PingSource.
const (
	changePrefix = "dev.knative.apiserver."
	sweepType    = "dev.knative.sources.ping"
)

var (
	modes   = []string{"ref", "resource"}
	changes = []string{"add", "update", "delete"}
)

// ring is what a request asks for: the sweep, if it names no object.
type ring struct{ object *oneshot.Reference }

func (r ring) String() string {
	if r.object == nil {
		return "sweep"
	}
	return r.object.String()
}

// kind is that of the metrics.
func (r ring) kind() string {
	if r.object == nil {
		return sweepKind
	}
	return change
}

// read reads a ring. Whether an object was created, changed or deleted makes no difference: the core sees it.
func read(w http.ResponseWriter, r *http.Request) (ring, *authserver.RefusedError) {
	tooLarge := &authserver.RefusedError{
		Status:  http.StatusRequestEntityTooLarge,
		Message: fmt.Sprintf("a ring may have at most %d bytes; mode Reference of ApiServerSource sends small ones", maxBody),
	}
	if r.ContentLength > maxBody {
		return ring{}, tooLarge
	}
	// Ignore the error: without a connection, as in a test, there is no deadline.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyWithin))
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	message := cehttp.NewMessageFromHttpRequest(r)
	e, err := binding.ToEvent(r.Context(), message)
	_ = message.Finish(nil) // the body ends with the request
	if err == nil {
		err = e.Validate()
	}
	if over := (*http.MaxBytesError)(nil); errors.As(err, &over) {
		return ring{}, tooLarge
	}
	if err != nil {
		return ring{}, &authserver.RefusedError{
			Status:  http.StatusBadRequest,
			Message: "this is not a CloudEvent in binary or structured mode: " + err.Error(),
		}
	}
	// Otherwise the deadline would end a request without a body.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return parse(e)
}

// parse reads the attributes. ApiServerSource and the doorbell have the key there, in both modes.
func parse(e *event.Event) (ring, *authserver.RefusedError) {
	never := func(format string, args ...any) (ring, *authserver.RefusedError) {
		return ring{}, &authserver.RefusedError{
			Status: http.StatusUnprocessableEntity, Message: fmt.Sprintf(format, args...),
		}
	}
	switch {
	case e.Type() == sweepType:
		return ring{}, nil
	case !isChange(e.Type()):
		return never("type %q is not that of a ring; it must be %s, or %s{%s}.{%s}", e.Type(), sweepType, changePrefix,
			strings.Join(modes, ","), strings.Join(changes, ","))
	}
	of := func(attribute string) string {
		text, _ := e.Extensions()[attribute].(string)
		return text
	}
	o := &oneshot.Reference{
		APIVersion: of("apiversion"), Kind: of("kind"), Namespace: of("namespace"), Name: of("name"),
	}
	if o.APIVersion == "" || o.Kind == "" || o.Name == "" {
		return never("the ring names no object; the attributes apiversion, kind, name and namespace must be those of one")
	}
	if wrong := validation.IsDNS1123Subdomain(o.Name); len(wrong) > 0 {
		return never("%q is not the name of an object: %s", o.Name, wrong[0])
	}
	if wrong := validation.IsDNS1123Label(o.Namespace); o.Namespace != "" && len(wrong) > 0 {
		return never("%q is not the name of a namespace: %s", o.Namespace, wrong[0])
	}
	if (o.Namespace == "") != (o.Kind == "Namespace") {
		return never("the attribute namespace is %q; it must be the namespace of the %s, and empty only for a Namespace",
			o.Namespace, o.Kind)
	}
	return ring{o}, nil
}

func isChange(kind string) bool {
	rest, ours := strings.CutPrefix(kind, changePrefix)
	mode, change, _ := strings.Cut(rest, ".")
	return ours && slices.Contains(modes, mode) && slices.Contains(changes, change)
}
