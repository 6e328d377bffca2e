// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// fill sets every reachable field to a nonzero value, so that a field missing from the schema is
// found.
func fill(v reflect.Value, name string, depth int) {
	if depth > 14 {
		return // filters contain filters
	}
	at := time.Date(2026, 11, 21, 9, 0, 0, 123456000, time.UTC)
	switch v.Addr().Interface().(type) {
	case *metav1.ObjectMeta, *metav1.TypeMeta:
		return // opaque to the schema
	case *apis.URL:
		v.Set(reflect.ValueOf(apis.URL{Scheme: "https", Host: "sink.example", Path: "/" + name}))
		return
	case *v1alpha1.Duration:
		v.Set(reflect.ValueOf(v1alpha1.Duration{Duration: time.Hour + 7*time.Minute + 1500*time.Millisecond}))
		return
	case *corev1.ConditionStatus, *metav1.ConditionStatus:
		v.SetString("True")
		return
	case *metav1.LabelSelectorOperator:
		v.SetString(string(metav1.LabelSelectorOpIn))
		return
	case *metav1.Time:
		v.Set(reflect.ValueOf(metav1.NewTime(at)))
		return
	case *metav1.MicroTime:
		v.Set(reflect.ValueOf(metav1.NewMicroTime(at)))
		return
	case *apis.VolatileTime:
		v.Set(reflect.ValueOf(apis.VolatileTime{Inner: metav1.NewTime(at)}))
		return
	case *runtime.RawExtension:
		v.Set(reflect.ValueOf(runtime.RawExtension{Raw: []byte(`{"any":{"thing":[1,"` + name + `"]}}`)}))
		return
	}
	switch v.Kind() { //nolint:exhaustive // the other kinds do not occur, and the default says so
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), v.Type().Field(i).Name, depth+1)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name, depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), name, depth+1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, "key", depth+1)
		fill(value, name, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("some" + name)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(.25)
	default:
		panic(fmt.Sprintf("%s is a %s", name, v.Kind()))
	}
}
