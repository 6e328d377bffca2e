// SPDX-License-Identifier: Apache-2.0

// Command hello responds with the name of its Revision.
package main

import (
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"
)

func main() {
	port := flag.Int("port", 8080, "the port to answer at")
	flag.Parse()
	s := &http.Server{
		Addr: fmt.Sprintf(":%d", *port), ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if _, err := fmt.Fprint(w, os.Getenv("K_REVISION")); err != nil {
				log.Print(err)
			}
		}),
	}
	log.Fatal(s.ListenAndServe())
}
