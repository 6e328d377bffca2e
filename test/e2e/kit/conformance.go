// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Conformance is the tests with which Knative Serving checks what a container meets, of the version that the cluster
// made by test/cluster runs.
type Conformance struct {
	kit     *Kit
	program string
	// template returns the image of a name.
	template string
}

// servingTests are the packages of the tests, and of their images.
const servingTests = "knative.dev/serving/test/"

// Conformance builds the tests into a folder, and their images.
func (k Services) Conformance(ctx context.Context, dir string) (*Conformance, error) {
	c := &Conformance{kit: k.Kit, program: filepath.Join(dir, "conformance")}
	part := k.Path("test", "cluster", "parts", "serving")
	if _, err := run(ctx, part, nil, "go", "test", "-tags", "e2e", "-c", "-o", c.program, servingTests+"conformance/runtime"); err != nil {
		return nil, err
	}
	for _, name := range []string{"runtime", "readiness"} {
		image, err := k.image(ctx, "part:serving", servingTests+"test_images/"+name)
		if err != nil {
			return nil, err
		}
		c.template += fmt.Sprintf("{{if eq .Name %q}}%s{{end}}", name, image)
	}
	return c, nil
}

// Prepare makes what the tests need in a namespace.
func (c *Conformance) Prepare(ctx context.Context, namespace string) error {
	data := map[string]string{"testKey": "testValue"}
	_, err := c.kit.Kube.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "conformance-test-configmap"}, Data: data,
	}, metav1.CreateOptions{})
	if err == nil {
		_, err = c.kit.Kube.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "conformance-test-secret"}, StringData: data,
		}, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("preparing the conformance tests: %w", err)
	}
	return nil
}

// result is a line of a test's output.
var result = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): (\S+) `)

// attempts is how often a test may fail. The ingress of the cluster answers 404 to a Service that is ready and that it does
// not know yet, and the tests take that for the Service's own answer.
const attempts = 3

// Run runs the tests in a namespace, and returns which of them passed, failed and were skipped, and their output. The
// templates of all Services that they make get the annotations.
func (c *Conformance) Run(ctx context.Context, namespace string, annotations map[string]string) (map[string]string, string, error) {
	kubeconfig, stop, err := c.annotating(ctx, annotations)
	if err != nil {
		return nil, "", err
	}
	defer stop()
	results := map[string]string{}
	chosen, out := ".", ""
	for range attempts {
		if out, err = c.attempt(ctx, namespace, kubeconfig, chosen); err != nil {
			return nil, out, err
		}
		var failed []string
		for _, found := range result.FindAllStringSubmatch(out, -1) {
			name, how := found[2], found[1]
			if results[name] = how; how == "FAIL" && !strings.Contains(name, "/") {
				failed = append(failed, name)
			}
		}
		if len(failed) == 0 {
			break
		}
		chosen = "^(" + strings.Join(failed, "|") + ")$"
	}
	if len(results) == 0 {
		return nil, out, fmt.Errorf("no conformance test ran\n%s", tail(out))
	}
	return results, out, nil
}

// attempt runs the chosen tests once, and returns their output.
func (c *Conformance) attempt(ctx context.Context, namespace, kubeconfig, chosen string) (string, error) {
	ingress, err := c.kit.Address(ctx, "ingress")
	if err != nil {
		return "", err
	}
	at, err := url.Parse(ingress)
	if err != nil {
		return "", fmt.Errorf("reading the ingress' address: %w", err)
	}
	cmd := exec.CommandContext(ctx, c.program, "-test.v", "-test.timeout", "40m", "-test.parallel", "2", "-test.run", chosen,
		"-ingressendpoint", at.Hostname(), "-test-namespace", namespace, "-imagetemplate", c.template, "-disable-logstream")
	// The tests look for the port of the ingress in its Service.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "GATEWAY_OVERRIDE=traefik-public", "GATEWAY_NAMESPACE_OVERRIDE=traefik")
	cmd.Dir = filepath.Dir(c.program)
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return string(out), fmt.Errorf("running the conformance tests: %w\n%s", err, tail(string(out)))
	}
	return string(out), nil
}

// annotating serves the API of the cluster, with the annotations added to what creates or replaces a Service. It returns
// a kubeconfig.
func (c *Conformance) annotating(ctx context.Context, annotations map[string]string) (kubeconfig string, stop func(), err error) {
	transport, err := rest.TransportFor(c.kit.Config)
	if err != nil {
		return "", nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	target, _, err := rest.DefaultServerUrlFor(c.kit.Config)
	if err != nil {
		return "", nil, fmt.Errorf("reading the cluster's address: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("serving the API: %w", err)
	}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: annotate(proxy, annotations)}
	go func() { _ = server.Serve(listener) }()
	stop = func() { _ = server.Close() }
	config := api.NewConfig()
	config.Clusters["proxy"] = &api.Cluster{Server: "http://" + listener.Addr().String()}
	config.Contexts["proxy"] = &api.Context{Cluster: "proxy"}
	config.CurrentContext = "proxy"
	kubeconfig = filepath.Join(filepath.Dir(c.program), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		stop()
		return "", nil, fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return kubeconfig, stop, nil
}

// ksvc matches the paths of Knative Services.
var ksvc = regexp.MustCompile(`^/apis/serving\.knative\.dev/v1/namespaces/[^/]+/services(/[^/]+)?$`)

// annotate adds annotations to the templates of Knative Services that are created or replaced.
func annotate(next http.Handler, annotations map[string]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ksvc.MatchString(r.URL.Path) && (r.Method == http.MethodPost || r.Method == http.MethodPut) {
			body, err := io.ReadAll(r.Body)
			if err == nil {
				body, err = annotated(body, annotations)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			r.Header.Del("Content-Length")
		}
		next.ServeHTTP(w, r)
	})
}

func annotated(service []byte, annotations map[string]string) ([]byte, error) {
	var s map[string]any
	if err := json.Unmarshal(service, &s); err != nil {
		return nil, fmt.Errorf("reading a Service: %w", err)
	}
	at := s
	for name := range strings.SplitSeq("spec template metadata annotations", " ") {
		inner, is := at[name].(map[string]any)
		if !is {
			inner = map[string]any{}
			at[name] = inner
		}
		at = inner
	}
	for name, value := range maps.All(annotations) {
		at[name] = value
	}
	out, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("writing a Service: %w", err)
	}
	return out, nil
}
