// SPDX-License-Identifier: Apache-2.0

// Command targets is Prometheus' service discovery for pods.
//
// Debian builds Prometheus without discovery for Kubernetes. This program answers "http_sd" requests with the labels
// that it would have set, so that the usual relabelling rules work.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9092", "the address to answer at")
	server := flag.String("server", "", "the API server")
	ca := flag.String("ca", "", "the API server's authority")
	cert := flag.String("cert", "", "the client certificate")
	key := flag.String("key", "", "the client certificate's key")
	flag.Parse()
	client, err := newClient(*ca, *cert, *key)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /pods", func(w http.ResponseWriter, r *http.Request) {
		groups, err := list(r, client, *server)
		if err != nil {
			// Prometheus keeps its earlier targets on an error.
			log.Print(err)
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(groups); err != nil {
			log.Print(err)
		}
	})
	s := &http.Server{Addr: *listen, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(s.ListenAndServe())
}

func newClient(caFile, certFile, keyFile string) (*http.Client, error) {
	ca, err := os.ReadFile(caFile) //nolint:gosec // from the command line
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New(caFile + " contains no certificate")
	}
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		},
	}, nil
}

// pod has the fields of a pod that are used.
type pod struct {
	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Containers []struct {
			Name  string `json:"name"`
			Ports []struct {
				Name string `json:"name"`
				Port int    `json:"containerPort"`
			} `json:"ports"`
		} `json:"containers"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
		PodIP string `json:"podIP"`
	} `json:"status"`
}

// group is one entry of a response.
type group struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

func list(r *http.Request, client *http.Client, server string) ([]group, error) {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, server+"/api/v1/pods?resourceVersion=0", nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // decoded to its end, or abandoned
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("listing pods: %s", resp.Status)
	}
	var pods struct {
		Items []pod `json:"items"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&pods); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	groups := []group{}
	for _, p := range pods.Items {
		groups = append(groups, targets(p)...)
	}
	return groups, nil
}

// targets returns a target for each port of a pod, and one for a container without ports.
func targets(p pod) []group {
	if p.Status.PodIP == "" {
		return nil
	}
	const prefix = "__meta_kubernetes_pod_"
	common := map[string]string{
		"__meta_kubernetes_namespace": p.Metadata.Namespace, prefix + "name": p.Metadata.Name,
		prefix + "phase": p.Status.Phase, prefix + "ip": p.Status.PodIP,
	}
	for k, v := range p.Metadata.Labels {
		common[prefix+"label_"+sanitize(k)] = v
	}
	for k, v := range p.Metadata.Annotations {
		// Other annotations may contain whole manifests.
		if strings.HasPrefix(k, "prometheus.io/") {
			common[prefix+"annotation_"+sanitize(k)] = v
		}
	}
	var all []group
	add := func(address string, own map[string]string) {
		maps.Copy(own, common)
		all = append(all, group{Targets: []string{address}, Labels: own})
	}
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			number := strconv.Itoa(port.Port)
			add(net.JoinHostPort(p.Status.PodIP, number), map[string]string{
				prefix + "container_name": c.Name, prefix + "container_port_name": port.Name, prefix + "container_port_number": number,
			})
		}
		if len(c.Ports) == 0 {
			add(p.Status.PodIP, map[string]string{prefix + "container_name": c.Name})
		}
	}
	return all
}

// sanitize turns a key into a label name.
func sanitize(key string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, key)
}
