// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// ProxiesConfig is the name of the ConfigMap with the sidecars of an installation.
const ProxiesConfig = "config-sidecars"

// Proxies are the sidecars that an installation knows beside its own, by the name that annotation proxy gives them.
type Proxies struct {
	named map[string]Proxy
	// problem says why the present ConfigMap is not in force.
	problem error
}

// Proxy is a sidecar that is not of this project.
type Proxy struct {
	// Container is the sidecar. It becomes an init container with restartPolicy Always.
	Container corev1.Container `json:"container"`
	// UserPort is where it takes the requests of queue-proxy.
	UserPort int32 `json:"userPort"`
	// ApplicationPort is the environment variable that gets the port of the container; empty: there is none.
	ApplicationPort string `json:"applicationPort"`
	// Readiness is asked by queue-proxy, beside what it asks the container. Nil: the sidecar is ready if the container is.
	Readiness *Readiness `json:"readiness"`
	// Environment has the annotation of the template that each environment variable gets its value from. A variable
	// without its annotation keeps the value in Container, if there is one.
	Environment map[string]string `json:"environment"`
}

// Readiness is an address in the pod that answers 200 to GET when the sidecar is ready.
type Readiness struct {
	Path string `json:"path"`
	Port int32  `json:"port"`
}

// ParseProxies reads the data of ConfigMap config-sidecars. After an error, nothing of it is in force; the error names
// what is wrong in which entry.
func ParseProxies(data map[string]string) (Proxies, error) {
	out := Proxies{named: map[string]Proxy{}}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(data)) {
		if strings.HasPrefix(name, "_") {
			continue // an example
		}
		var p Proxy
		err := yaml.UnmarshalStrict([]byte(data[name]), &p)
		if err == nil {
			err = p.check(name)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("ConfigMap %s, key %s: %w", ProxiesConfig, name, err))
			continue
		}
		out.named[name] = p
	}
	if err := errors.Join(errs...); err != nil {
		return Proxies{problem: err}, err
	}
	return out, nil
}

// Named returns a sidecar. The error says which ones there are.
func (p Proxies) Named(name string) (Proxy, error) {
	one, ok := p.named[name]
	switch {
	case ok:
		return one, nil
	case p.problem != nil:
		return Proxy{}, p.problem
	case len(p.named) == 0:
		return Proxy{}, fmt.Errorf("annotation %s is %q, and ConfigMap %s names no sidecar", v1alpha1.AnnotationProxy, name, ProxiesConfig)
	}
	return Proxy{}, fmt.Errorf("annotation %s is %q; ConfigMap %s has %s", v1alpha1.AnnotationProxy, name, ProxiesConfig,
		strings.Join(slices.Sorted(maps.Keys(p.named)), ", "))
}

func (p *Proxy) check(name string) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if bad := validation.IsDNS1123Label(name); len(bad) > 0 || name == queueProxy {
		wrong("the key must be a name such as akka-proxy, and not %s", queueProxy)
	}
	c := &p.Container
	if bad := validation.IsDNS1123Label(c.Name); len(bad) > 0 || c.Name == queueProxy || c.Name == Container {
		wrong("container.name is %q; it must be a name such as akka-proxy, and not %s or %s", c.Name, queueProxy, Container)
	}
	if c.Image == "" {
		wrong("container.image is missing")
	}
	if c.RestartPolicy != nil {
		wrong("container.restartPolicy must not be set; it is always Always")
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		wrong("container.lifecycle.preStop must not be set: the sidecar ends after the container")
	}
	ports := map[string]int32{"userPort": p.UserPort}
	if p.Readiness != nil {
		if ports["readiness.port"] = p.Readiness.Port; !strings.HasPrefix(p.Readiness.Path, "/") {
			wrong("readiness.path is %q; it must begin with a slash", p.Readiness.Path)
		}
	}
	for _, of := range slices.Sorted(maps.Keys(ports)) {
		if port := ports[of]; port < 1 || port > 65535 || v1alpha1.UsedByQueueProxy(int(port)) {
			wrong("%s is %d; it must be from 1 to 65535, and not one that %s uses in each pod", of, port, queueProxy)
		}
	}
	variables := maps.Clone(p.Environment)
	if variables == nil {
		variables = map[string]string{}
	}
	if p.ApplicationPort != "" {
		if _, twice := variables[p.ApplicationPort]; twice {
			wrong("applicationPort is %s, which environment has, too", p.ApplicationPort)
		}
		variables[p.ApplicationPort] = v1alpha1.AnnotationProxy
	}
	for _, variable := range slices.Sorted(maps.Keys(variables)) {
		if bad := validation.IsEnvVarName(variable); len(bad) > 0 {
			wrong("%q is no name of an environment variable", variable)
		}
		if bad := validation.IsQualifiedName(variables[variable]); len(bad) > 0 {
			wrong("environment.%s is %q, which is no name of an annotation", variable, variables[variable])
		}
	}
	return errors.Join(errs...)
}

// inject puts the sidecar between queue-proxy and a container that handles requests at a port.
func (p *Proxy) inject(pod *corev1.Pod, queue, user *corev1.Container, port int32) error {
	c, entry := p.Container.DeepCopy(), strconv.Itoa(int(p.UserPort))
	if variable(queue, portVariable) == entry && has(pod.Spec.InitContainers, c.Name) {
		return nil
	}
	if port == p.UserPort || p.Readiness != nil && port == p.Readiness.Port {
		return fmt.Errorf("the container's port is %d, which sidecar %s uses in this pod; use another port", port, c.Name)
	}
	if err := onlySidecar(queue, user); err != nil {
		return err
	}
	if has(pod.Spec.InitContainers, c.Name) || has(pod.Spec.Containers, c.Name) {
		return fmt.Errorf("the template has a container named %s; give it another name", c.Name)
	}
	if p.Readiness != nil {
		if err := awaitSidecar(queue, p.Readiness.Port, p.Readiness.Path); err != nil {
			return err
		}
	}
	set := func(name, value string) {
		// Kubelet would replace $(NAME).
		v := corev1.EnvVar{Name: name, Value: strings.ReplaceAll(value, "$", "$$")}
		c.Env = append(slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name }), v)
	}
	if p.ApplicationPort != "" {
		set(p.ApplicationPort, strconv.Itoa(int(port)))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Environment)) {
		if value, there := pod.Annotations[p.Environment[name]]; there {
			set(name, value)
		}
	}
	always := corev1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, *c)
	setVariable(queue, portVariable, entry)
	return nil
}
