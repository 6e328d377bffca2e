// SPDX-License-Identifier: Apache-2.0

package http

import (
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// attributePrefix begins the headers that hold attributes, as net/http writes it.
const attributePrefix = "Ce-"

// encodeHeaders encodes the values of attributes as the HTTP binding of CloudEvents
// requires (3.1.3.2). The SDK does not.
func encodeHeaders(header http.Header) error {
	for name, values := range header {
		for i, value := range values {
			if strings.HasPrefix(name, attributePrefix) {
				values[i] = percentEncode(value)
			} else if !httpguts.ValidHeaderFieldValue(value) {
				return fmt.Errorf("the event's attribute in header %s has characters that no HTTP header can carry; use "+
					"spec.delivery.format: json", name)
			}
		}
	}
	return nil
}

// percentEncode keeps printable ASCII except space, double quote and percent, and encodes
// the UTF-8 bytes of everything else.
func percentEncode(value string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(value) {
		if c := value[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '%' {
			b.Write([]byte{'%', digits[c>>4], digits[c&0xf]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
