// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/prometheus/procfs"
)

// machine describes the machine and its load before the run.
type machine struct {
	Processor string
	Cores     int
	Memory    uint64
	Kernel    string
	Load      float64
}

func thisMachine() (machine, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return machine{}, fmt.Errorf("opening /proc: %w", err)
	}
	m := machine{Cores: runtime.NumCPU()}
	load, err := fs.LoadAvg()
	if err != nil {
		return m, fmt.Errorf("reading the load: %w", err)
	}
	m.Load = load.Load1
	info, err := fs.Meminfo()
	if err != nil {
		return m, fmt.Errorf("reading the size of the memory: %w", err)
	}
	if info.MemTotalBytes != nil {
		m.Memory = *info.MemTotalBytes
	}
	if cpus, err := fs.CPUInfo(); err == nil && len(cpus) > 0 {
		m.Processor = cpus[0].ModelName
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return m, fmt.Errorf("reading the version of the kernel: %w", err)
	}
	m.Kernel = strings.TrimSpace(string(release))
	return m, nil
}

// versions of the participants.
type versions struct {
	Go, Kubernetes, Eventing string
	// Sizes of a Service, a Route and a Revision, in bytes of JSON.
	Service, Route, Revision int
}

func (s *stage) versions(ctx context.Context) (versions, error) {
	v := versions{Go: runtime.Version()}
	server, err := s.kube.Discovery().ServerVersion()
	if err != nil {
		return v, fmt.Errorf("asking the API server for its version: %w", err)
	}
	v.Kubernetes = server.GitVersion
	info, err := buildinfo.ReadFile(apiServerSource.path(s.programs))
	if err != nil {
		return v, fmt.Errorf("reading the version of the adapter: %w", err)
	}
	v.Eventing = info.Main.Version
	for _, m := range info.Deps {
		if m.Path == "knative.dev/eventing" {
			v.Eventing = m.Version
		}
	}
	if s.cast.probe != nil { // otherwise no scenario needs them
		v.Service, v.Route, v.Revision, err = s.cast.sizes(ctx)
	}
	return v, err
}
