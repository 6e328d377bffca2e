// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "encoding/base64"

// Gzip is compressed data (RFC 1952). In JSON, it is a string, encoded as base64 (RFC 4648, section 4).
//
// A string in another encoding is taken as it is. It is no gzip either, so that whoever decompresses it reports that. An error would instead
// keep everyone from listing CDEventSubjects, if a user edits one of them. The CustomResourceDefinition does not declare the encoding: the
// API server would match each value with a regular expression, which takes a third of the time of a write.
type Gzip []byte

// MarshalText returns base64. It never fails.
func (g Gzip) MarshalText() ([]byte, error) {
	return base64.StdEncoding.AppendEncode(make([]byte, 0, base64.StdEncoding.EncodedLen(len(g))), g), nil
}

// UnmarshalText reads base64. It never fails.
func (g *Gzip) UnmarshalText(text []byte) error {
	out, err := base64.StdEncoding.AppendDecode(make([]byte, 0, base64.StdEncoding.DecodedLen(len(text))), text)
	if err != nil {
		out = append(out[:0], text...)
	}
	*g = out
	return nil
}
