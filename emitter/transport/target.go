// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/url"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
)

// Target is where to send for one source.
type Target struct {
	// URL of the sink, with path and query.
	URL string
	// CACerts are further certificate authorities to trust, in PEM.
	CACerts string
	// Source is the UID of the source. Two sources never share a client.
	Source types.UID
	// Credentials names those that the sink is sent; without them, no event is.
	Credentials credentials.References
}

// String returns scheme and host. Query and path of a webhook's URL are often its password.
func (t Target) String() string {
	u, err := url.Parse(t.URL)
	if err != nil || u.Host == "" {
		return "a sink without a valid URI"
	}
	return u.Scheme + "://" + u.Host
}
