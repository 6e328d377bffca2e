// SPDX-License-Identifier: Apache-2.0

// Package filled makes values for tests that must find a field that is lost on the way.
//
// Its invariant: no field of a value is zero, and no two numbers or texts of one value are equal.
package filled

import (
	"fmt"
	"reflect"
)

// New returns a value of which every field is set. It panics for a type with fields that it does not know.
func New[T any]() T {
	var out T
	n := 0
	fill(reflect.ValueOf(&out).Elem(), &n)
	return out
}

func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() { //nolint:exhaustive // the default says which kinds are missing
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.String:
		v.SetString(fmt.Sprintf("Text%d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n) + .25)
	default:
		panic(fmt.Sprintf("a %s cannot be filled", v.Kind()))
	}
}
