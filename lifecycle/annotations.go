// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
)

// BoundAnnotations returns the annotations to keep of an object: those that are carried, without credentials and within
// limits.
func BoundAnnotations(all map[string]string, carried []string) map[string]string {
	var out map[string]string
	room := MaxAnnotations
	for _, name := range carried {
		v, ok := all[name]
		if !ok {
			continue
		}
		v = sanitize.WithoutCredentials(v)
		if most := min(room, maxAnnotation); JSONSize(v) > most {
			v = shortened(v, most)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = v
		room = max(0, room-JSONSize(v))
	}
	return out
}

// cutOff marks a truncated value. Events omit such a value with a note, because a part of a commit or
// URL would name something else. In a list, they omit only the last entry.
const cutOff = "\x7f"

// shortened returns as many entries of a list as fit, followed by cutOff.
func shortened(v string, most int) string {
	end, size := 0, len(cutOff)
	for i, r := range v {
		if size += JSONSize(string(r)); size > most {
			end = i
			break
		}
	}
	if last := strings.LastIndexByte(v[:end], ','); last > 0 {
		return clip(v, end) + "," + cutOff
	}
	return cutOff
}

// maxAnnotation limits one annotation, and MaxAnnotations all annotations of an object, in bytes of
// JSON. Kubernetes allows 256 KiB, and the ledger stores two dozen Revisions.
const (
	maxAnnotation  = 2 << 10
	MaxAnnotations = 4 << 10
)

// clip truncates a long value, at a comma if it is a list: half a link would point to something
// else.
func clip(v string, most int) string {
	if len(v) <= most {
		return v
	}
	if i := strings.LastIndexByte(v[:most], ','); i > 0 {
		return v[:i]
	}
	return strings.ToValidUTF8(v[:most], "")
}
