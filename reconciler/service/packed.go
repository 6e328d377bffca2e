// SPDX-License-Identifier: Apache-2.0

package service

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// What the caches hold of an object is read only when something about its Service changes, and a cluster has tens of thousands of
// Revisions. So it is packed: one string instead of a struct with slices, maps and many short strings. No packed value is ever
// stored outside of the process.

// packed is a value of a part. Equal values are packed alike, so packed values can be compared. Its first byte is the kind of value.
type packed string

const (
	packedService  = 's'
	packedRoute    = 't'
	packedRevision = 'r'
	packedDomain   = 'd'
)

// pack packs a value of this package.
func pack(value any) any {
	var e encoder
	switch v := value.(type) {
	case serviceValue:
		e.service(v)
	case routeValue:
		e.route(v)
	case revisionValue:
		e.revision(v)
	case domainValue:
		e = append(e, packedDomain)
		e.text(v.URL)
		e.flags(v.Away)
	default:
		return value // nil
	}
	return packed(e)
}

// unpack returns the value that was packed, or a value that is not packed as it is.
func unpack(value any) any {
	p, ok := value.(packed)
	if !ok || p == "" {
		return value
	}
	d := decoder(p[1:])
	switch p[0] {
	case packedService:
		return d.service()
	case packedRoute:
		return d.route()
	case packedRevision:
		return d.revision()
	}
	v := domainValue{URL: d.text()}
	d.flags(&v.Away)
	return v
}

// valueOf returns the value of a part if it is one of this kind.
func valueOf[T any](value any) (T, bool) {
	v, ok := unpack(value).(T)
	return v, ok
}

// identity returns the UID of a Service and when it was created, false if the value is not that of a Service.
func identity(value any) (uid types.UID, created time.Time, ok bool) {
	p, ok := value.(packed)
	if !ok || p[0] != packedService {
		return "", time.Time{}, false
	}
	d := decoder(p[1:])
	return types.UID(d.text()), d.time(), true
}

// isRevision reports whether the value of a part is that of a Revision.
func isRevision(value any) bool {
	p, ok := value.(packed)
	return ok && p[0] == packedRevision
}

func (e *encoder) service(v serviceValue) {
	*e = append(*e, packedService)
	e.text(string(v.UID))
	e.time(v.Created)
	e.number(v.Generation)
	e.flags(v.Ready, v.EverReady)
	e.pairs(v.Annotations)
	e.pairs(v.Labels)
	e.trouble(v.Trouble)
}

func (e *encoder) trouble(all map[lifecycle.Incident]*lifecycle.Trouble) {
	e.length(len(all), all == nil)
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		e.text(string(kind))
		e.text(all[kind].Reason)
		e.text(all[kind].Message)
	}
}

func (d *decoder) service() serviceValue {
	v := serviceValue{UID: types.UID(d.text()), Created: d.time(), Generation: d.number()}
	d.flags(&v.Ready, &v.EverReady)
	v.Annotations, v.Labels, v.Trouble = d.pairs(), d.pairs(), d.trouble()
	return v
}

func (d *decoder) trouble() map[lifecycle.Incident]*lifecycle.Trouble {
	n, some := d.length()
	if !some {
		return nil
	}
	out := make(map[lifecycle.Incident]*lifecycle.Trouble, n)
	for range n {
		kind := lifecycle.Incident(d.text())
		out[kind] = &lifecycle.Trouble{Reason: d.text(), Message: d.text()}
	}
	return out
}

func (e *encoder) route(v routeValue) {
	*e = append(*e, packedRoute)
	e.text(string(v.Owner))
	e.flags(v.Effective, v.Rollout)
	e.trouble(v.Trouble)
	e.length(len(v.Traffic), v.Traffic == nil)
	for _, s := range v.Traffic {
		e.text(s.Revision)
		e.number(s.Percent)
	}
	e.texts(v.URLs)
	e.texts(v.Uncertified)
}

func (e *encoder) texts(all []string) {
	e.length(len(all), all == nil)
	for _, s := range all {
		e.text(s)
	}
}

func (d *decoder) route() routeValue {
	v := routeValue{Owner: types.UID(d.text())}
	d.flags(&v.Effective, &v.Rollout)
	v.Trouble = d.trouble()
	if n, some := d.length(); some {
		v.Traffic = make([]lifecycle.Share, 0, n)
		for range n {
			v.Traffic = append(v.Traffic, lifecycle.Share{Revision: d.text(), Percent: d.number()})
		}
	}
	v.URLs, v.Uncertified = d.texts(), d.texts()
	return v
}

func (d *decoder) texts() []string {
	n, some := d.length()
	if !some {
		return nil
	}
	out := make([]string, 0, n)
	for range n {
		out = append(out, d.text())
	}
	return out
}

func (e *encoder) revision(v revisionValue) {
	*e = append(*e, packedRevision)
	f := v.Facts
	for _, s := range []string{string(v.Owner), f.Name, f.UID, f.Digests, f.Template, f.Stateful, f.Misdeclared} {
		e.text(s)
	}
	e.number(f.Generation)
	e.flags(f.Ready)
	e.pairs(f.Annotations)
	e.length(len(f.Images), f.Images == nil)
	for _, i := range f.Images {
		e.text(i.Container)
		e.text(i.Image)
		e.text(i.Digest)
	}
}

func (d *decoder) revision() revisionValue {
	v := revisionValue{Owner: types.UID(d.text())}
	f := &v.Facts
	for _, s := range []*string{&f.Name, &f.UID, &f.Digests, &f.Template, &f.Stateful, &f.Misdeclared} {
		*s = d.text()
	}
	f.Generation = d.number()
	d.flags(&f.Ready)
	f.Annotations = d.pairs()
	if n, some := d.length(); some {
		f.Images = make([]lifecycle.Image, 0, n)
		for range n {
			f.Images = append(f.Images, lifecycle.Image{Container: d.text(), Image: d.text(), Digest: d.text()})
		}
	}
	return v
}

// encoder appends to a packed value, decoder takes from the front of one. What is encoded in one order must be decoded in the same.
type (
	encoder []byte
	decoder string
)

// How a text is encoded. The length, shifted, is in front.
const (
	formPlain  = iota
	formHex    // lower-case digits, as in a hash
	formUUID   // lower-case
	formDigest // anything that ends with a SHA-256 digest; the length is that of the rest
	formUsual  // one of usual; the length is its index
	formBits   = 3
)

// usual are texts that many objects have.
var usual = []string{
	"app", "app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/component",
	"app.kubernetes.io/part-of", "app.kubernetes.io/managed-by", "helm.sh/chart", "user-container",
}

const (
	sha256Mark = "@sha256:"
	sha256Size = 32
	uuidSize   = 16
)

func (e *encoder) head(n, form int) {
	*e = binary.AppendUvarint(*e, uint64(n)<<formBits|uint64(form)) //nolint:gosec // lengths are not negative
}

func (e *encoder) text(s string) {
	if raw, ok := fromUUID(s); ok {
		e.head(0, formUUID)
		*e = append(*e, raw...)
		return
	}
	if raw, ok := fromHex(s); ok && len(raw) > 0 {
		e.head(len(raw), formHex)
		*e = append(*e, raw...)
		return
	}
	if rest, digest, found := strings.Cut(s, sha256Mark); found {
		if raw, ok := fromHex(digest); ok && len(raw) == sha256Size {
			e.head(len(rest), formDigest)
			*e = append(append(*e, rest...), raw...)
			return
		}
	}
	if i := slices.Index(usual, s); i >= 0 {
		e.head(i, formUsual)
		return
	}
	e.head(len(s), formPlain)
	*e = append(*e, s...)
}

func (d *decoder) text() string {
	head := d.uvarint()
	n, form := int(head>>formBits), head&(1<<formBits-1)
	switch form {
	case formHex:
		return hex.EncodeToString([]byte(d.take(n)))
	case formUUID:
		h := hex.EncodeToString([]byte(d.take(uuidSize)))
		return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
	case formDigest:
		return d.take(n) + sha256Mark + hex.EncodeToString([]byte(d.take(sha256Size)))
	case formUsual:
		return usual[n]
	}
	return d.take(n)
}

// fromHex decodes lower-case hexadecimal digits.
func fromHex(s string) ([]byte, bool) {
	if strings.ToLower(s) != s {
		return nil, false
	}
	raw, err := hex.DecodeString(s)
	return raw, err == nil
}

// fromUUID decodes a lower-case UUID.
func fromUUID(s string) ([]byte, bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return nil, false
	}
	return fromHex(s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:])
}

func (e *encoder) number(n int64) { *e = binary.AppendVarint(*e, n) }

func (d *decoder) number() int64 {
	u := d.uvarint()
	n := int64(u >> 1)
	if u&1 != 0 {
		n = ^n
	}
	return n
}

func (d *decoder) uvarint() uint64 {
	var n uint64
	for i := 0; ; i++ {
		b := (*d)[i]
		n |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			*d = (*d)[i+1:]
			return n
		}
	}
}

func (d *decoder) take(n int) string {
	out := string((*d)[:n])
	*d = (*d)[n:]
	return out
}

// time keeps the moment. Objects have their times in the local zone.
func (e *encoder) time(t time.Time) {
	e.number(t.Unix())
	e.number(int64(t.Nanosecond()))
}

func (d *decoder) time() time.Time {
	t := time.Unix(d.number(), d.number())
	if t.IsZero() {
		return time.Time{}
	}
	return t
}

func (e *encoder) flags(all ...bool) {
	bits := byte(0)
	for i, is := range all {
		if is {
			bits |= 1 << i
		}
	}
	*e = append(*e, bits)
}

func (d *decoder) flags(all ...*bool) {
	bits := d.take(1)[0]
	for i, is := range all {
		*is = bits&(1<<i) != 0
	}
}

// length distinguishes nothing from an empty list.
func (e *encoder) length(n int, none bool) {
	if none {
		n = -1
	}
	e.number(int64(n) + 1)
}

func (d *decoder) length() (n int, some bool) {
	n = int(d.number()) - 1
	return n, n >= 0
}

func (e *encoder) pairs(all map[string]string) {
	e.length(len(all), all == nil)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		e.text(k)
		e.text(all[k])
	}
}

func (d *decoder) pairs() map[string]string {
	n, some := d.length()
	if !some {
		return nil
	}
	out := make(map[string]string, n)
	for range n {
		k := d.text()
		out[k] = d.text()
	}
	return out
}
