// SPDX-License-Identifier: Apache-2.0

package service

import (
	"math"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// texts are ways in which strings are packed, and strings that look nearly like them.
var texts = []string{
	"", "cart", "app", "user-container", "0", "00", "ab", "AB", "abc", "app.kubernetes.io/name",
	"1b4e28ba-2fa1-11d2-883f-0016d3cca427", "1B4E28BA-2FA1-11D2-883F-0016D3CCA427", "1b4e28ba-2fa1-11d2-883f-0016d3cca42", "1b4e28ba-2fa1-11d2-883f-0016d3cca42x",
	"registry.example.com/shop/cart@sha256:" + strings.Repeat("0a", 32), "@sha256:" + strings.Repeat("0a", 32), "cart@sha256:" + strings.Repeat("0A", 32),
	"a@sha256:b@sha256:" + strings.Repeat("0a", 32), "cart@sha256:0a", strings.Repeat("é", 400), strings.Repeat("x", 70_000),
}

// filled sets every field of a value, whatever fields it has.
func filled(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(texts[r.Intn(len(texts))])
	case reflect.Int64:
		v.SetInt([]int64{0, 1, -1, 63, 64, math.MaxInt64, math.MinInt64, r.Int63()}[r.Intn(8)])
	case reflect.Bool:
		v.SetBool(r.Intn(2) == 0)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(r, v.Elem())
	case reflect.Slice:
		n := r.Intn(4) - 1
		if n < 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			filled(r, v.Index(i))
		}
	case reflect.Map:
		n := r.Intn(5) - 1
		if n < 0 {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for range n {
			k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			filled(r, k)
			filled(r, e)
			v.SetMapIndex(k, e)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf([]time.Time{{}, time.Unix(1_800_000_000, 0), time.Unix(-5, 7)}[r.Intn(3)]))
			return
		}
		for i := range v.NumField() {
			filled(r, v.Field(i))
		}
	default:
		panic("packing cannot handle a " + v.Kind().String())
	}
}

func TestPackingKeepsEveryField(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewSource(1))
	for _, kind := range []any{serviceValue{}, routeValue{}, revisionValue{}, domainValue{}} {
		seen := map[packed]any{}
		for range 500 {
			v := reflect.New(reflect.TypeOf(kind)).Elem()
			filled(r, v)
			want := v.Interface()
			p, ok := pack(want).(packed)
			if !ok {
				t.Fatalf("%T is not packed", want)
			}
			if diff := cmp.Diff(want, unpack(p)); diff != "" || !reflect.DeepEqual(want, unpack(p)) {
				t.Fatalf("%T: %s", want, diff)
			}
			if again := pack(unpack(p)); again != p {
				t.Fatalf("%T: packed again, it differs", want)
			}
			if other, ok := seen[p]; ok && !reflect.DeepEqual(other, want) {
				t.Fatalf("two values are packed alike: %+v and %+v", other, want)
			}
			seen[p] = want
		}
	}
	if pack(nil) != nil || unpack(nil) != nil || unpack(7) != 7 {
		t.Error("other values are changed")
	}
}

func TestPackedRevisionIsSmall(t *testing.T) {
	t.Parallel()
	v := revisionValue{Owner: "1b4e28ba-2fa1-11d2-883f-0016d3cca427", Facts: lifecycle.Revision{
		Name: "cart-00001", UID: "2b4e28ba-2fa1-11d2-883f-0016d3cca427", Generation: 1, Template: strings.Repeat("0a", 12), Ready: true,
		Images: []lifecycle.Image{{Container: "user-container", Image: "registry.example.com/shop/cart:1.0.0", Digest: "registry.example.com/shop/cart@sha256:" + strings.Repeat("0a", 32)}},
	}}
	if p, _ := pack(v).(packed); len(p) > 180 || !isRevision(p) {
		t.Errorf("%d bytes", len(p))
	}
}
