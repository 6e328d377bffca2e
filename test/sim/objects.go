// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// object is an object that an informer delivers.
type object interface {
	metav1.Object
	runtime.Object
}

// servingAPI is the group and version of a Service's objects.
const servingAPI = serving.GroupName + "/v1"

func ready(is bool) duckv1.Conditions {
	c := apis.Condition{Type: apis.ConditionReady, Status: corev1.ConditionUnknown}
	if is {
		c.Status = corev1.ConditionTrue
	}
	return duckv1.Conditions{c}
}

func mustURL(raw string) *apis.URL {
	u, err := apis.ParseURL(raw)
	if err != nil {
		panic(fmt.Sprintf("a URL of the simulation does not parse: %v", err))
	}
	return u
}

// url returns the external URL of a Service.
func (s *service) url() string { return "http://" + s.key.Name + ".example.com" }

func (s *service) object() *servingv1.Service {
	o := &servingv1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.key.Namespace, Name: s.key.Name, UID: s.uid, Generation: s.gen, CreationTimestamp: metav1.NewTime(s.created),
	}}
	o.Status.ObservedGeneration, o.Status.Conditions = s.gen, ready(s.ready)
	return o
}

// routeObject returns the Route with a split, in force or only requested.
func (s *service) routeObject(split []lifecycle.Share, effective bool) *servingv1.Route {
	yes := true
	o := &servingv1.Route{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.key.Namespace, Name: s.key.Name, UID: s.uid + "-route", Generation: s.gen,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: servingAPI, Kind: "Service", Name: s.key.Name, UID: s.uid, Controller: &yes}},
	}}
	o.Status.ObservedGeneration, o.Status.Conditions = s.gen, ready(effective)
	o.Status.URL = mustURL(s.url())
	for _, share := range split {
		percent := share.Percent
		o.Status.Traffic = append(o.Status.Traffic, servingv1.TrafficTarget{RevisionName: share.Revision, Percent: &percent})
	}
	return o
}

// revisionObject returns the nth Revision, with the given template.
func (s *service) revisionObject(name string, n, era int, template string, isReady bool) *servingv1.Revision {
	o := &servingv1.Revision{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.key.Namespace, Name: name, UID: types.UID(fmt.Sprintf("%s-%s-%d", s.uid, name, era)),
		Labels: map[string]string{
			serving.ServiceLabelKey: s.key.Name, serving.ServiceUIDLabelKey: string(s.uid), serving.ConfigurationGenerationLabelKey: fmt.Sprint(n),
		},
	}}
	if s.stateful {
		o.Annotations = map[string]string{v1alpha1.StatefulPrefix + "runtime": "pekko"}
	}
	o.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:" + template}}
	o.Status.Conditions = ready(isReady)
	o.Status.ContainerStatuses = []servingv1.ContainerStatus{{Name: "app", ImageDigest: "app@" + digest(template)}}
	return o
}
