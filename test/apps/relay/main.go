// SPDX-License-Identifier: Apache-2.0

// Command relay stands for a sidecar of another project: it passes requests on to APPLICATION_PORT of its pod, and logs
// each with GREETING.
package main

import (
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"
)

func main() {
	to := &url.URL{Scheme: "http", Host: "127.0.0.1:" + os.Getenv("APPLICATION_PORT")}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host }}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /relay/ready", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		log.Printf("%s: %q", os.Getenv("GREETING"), r.URL.Path)
		proxy.ServeHTTP(w, r)
	})
	server := &http.Server{Addr: ":" + os.Getenv("PORT"), Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}
