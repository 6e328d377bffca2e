// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"time"
)

// identity is the Revision and the pod of a process.
type identity struct {
	Revision string `json:"revision"`
	Pod      string `json:"pod"`
}

// config is read from the environment.
type config struct {
	Self identity
	// Cluster must be the same for all Revisions of a Service; otherwise each would form its own cluster.
	Cluster string
	Port    string
	Shards  int
	Fates   fates
	// Patience is how long the entry pod waits for the pod that handles the request.
	Patience time.Duration
	// ReportEntry adds the entry Revision to the request counter.
	ReportEntry bool
	// Placement places shards by the controller's plan, and not by protoactor-go's hash of members.
	Placement bool
	// Locks is the address of a program that sees whether two pods run the same shard at once; empty for none.
	Locks string
}

func configFrom(env func(string) string) (config, error) {
	r := reader{env: env}
	host, err := os.Hostname()
	if err != nil {
		return config{}, fmt.Errorf("asking for the pod's name: %w", err)
	}
	c := config{
		Self:    identity{Revision: cmp.Or(env("K_REVISION"), "none"), Pod: host},
		Cluster: cmp.Or(env("K_SERVICE"), "sharded"),
		Port:    cmp.Or(env("PORT"), "8080"),
		Shards:  r.number("SHARDS", 100),
		Fates: fates{
			FailRate: r.share("FAIL_RATE"), SlowRate: r.share("SLOW_RATE"), HangRate: r.share("HANG_RATE"),
			SlowFor: r.duration("SLOW_FOR", 700*time.Millisecond),
		},
		Patience:    r.duration("PATIENCE", 5*time.Second),
		ReportEntry: env("REPORT_ENTRY") == "true",
		Placement:   env("PLACEMENT") == "true",
		Locks:       env("LOCKS"),
	}
	return c, r.err
}

// reader keeps the first error in the environment.
type reader struct {
	env func(string) string
	err error
}

func (r *reader) wrong(name, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s=%q is not %s", name, r.env(name), want)
	}
}

func (r *reader) share(name string) float64 {
	if r.env(name) == "" {
		return 0
	}
	v, err := strconv.ParseFloat(r.env(name), 64)
	if err != nil || !(v >= 0 && v <= 1) {
		r.wrong(name, "a share from 0 to 1")
	}
	return v
}

func (r *reader) duration(name string, otherwise time.Duration) time.Duration {
	if r.env(name) == "" {
		return otherwise
	}
	d, err := time.ParseDuration(r.env(name))
	if err != nil || d <= 0 {
		r.wrong(name, "a duration such as 700ms")
	}
	return d
}

func (r *reader) number(name string, otherwise int) int {
	if r.env(name) == "" {
		return otherwise
	}
	n, err := strconv.Atoi(r.env(name))
	if err != nil || n < 1 || n > 1000 {
		r.wrong(name, "a number from 1 to 1000")
	}
	return n
}
