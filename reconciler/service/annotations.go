package service

import (
	"strings"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// carry keeps the annotations that events need, within bounds.
func (p projector) carry(all map[string]string) map[string]string {
	var out map[string]string
	room := maxAnnotations
	for _, name := range p.carried {
		v, ok := all[name]
		if !ok {
			continue
		}
		if most := min(room, maxAnnotation); lifecycle.JSONSize(v) > most {
			v = shortened(v, most)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = v
		room = max(0, room-lifecycle.JSONSize(v))
	}
	return out
}

// cutOff ends a value that is too long. Events reject what contains it, with a note: a part of a commit
// or of a URL would name something else. Of a list, they reject the last entry only.
const cutOff = "\x7f"

// shortened returns as many entries of a list as fit, and cutOff.
func shortened(v string, most int) string {
	end, size := 0, len(cutOff)
	for i, r := range v {
		if size += lifecycle.JSONSize(string(r)); size > most {
			end = i
			break
		}
	}
	if last := strings.LastIndexByte(v[:end], ','); last > 0 {
		return clip(v, end) + "," + cutOff
	}
	return cutOff
}

// maxAnnotation is how many bytes of JSON events carry of one annotation, and maxAnnotations of all
// annotations of an object. Kubernetes allows 256 KiB, and the ledger keeps two dozen
// Revisions.
const (
	maxAnnotation  = 2 << 10
	maxAnnotations = 4 << 10
)

// clip shortens a value that is too long, at a comma if it is a list: half a link would point
// to something else.
func clip(v string, most int) string {
	if len(v) <= most {
		return v
	}
	if i := strings.LastIndexByte(v[:most], ','); i > 0 {
		return v[:i]
	}
	return strings.ToValidUTF8(v[:most], "")
}
