// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Listener is a listening TCP socket.
type Listener struct {
	Port  int
	inode string
	any   bool
	addr  string
}

// Owner names the process that holds the socket, if it can be determined.
func (l Listener) Owner() string {
	fds, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return "an unknown process"
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && to == "socket:["+l.inode+"]" {
			pid := strings.Split(fd, "/")[2]
			comm, err := os.ReadFile(filepath.Join("/proc", pid, "comm")) //nolint:gosec // a process id
			if err != nil {
				continue
			}
			return fmt.Sprintf("process %s (%s)", pid, strings.TrimSpace(string(comm)))
		}
	}
	return "an unknown process"
}

// Listeners lists the listening TCP sockets of this network namespace.
func Listeners() []Listener {
	var all []Listener
	for _, path := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(path) //nolint:gosec // two fixed paths
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if l, ok := parseListener(lines.Text()); ok {
				all = append(all, l)
			}
		}
		_ = f.Close() // the file is only read
	}
	return all
}

// parseListener parses one line of /proc/net/tcp or tcp6.
func parseListener(line string) (Listener, bool) {
	const listening = "0A"
	f := strings.Fields(line)
	if len(f) < 10 || f[3] != listening {
		return Listener{}, false
	}
	addr, port, ok := strings.Cut(f[1], ":")
	if !ok {
		return Listener{}, false
	}
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return Listener{}, false
	}
	return Listener{Port: int(n), inode: f[9], addr: addr, any: strings.Trim(addr, "0") == ""}, true
}

// Taken returns the listener that prevents us from listening on ip:port.
func Taken(all []Listener, ip [4]byte, port int) (Listener, bool) {
	// The kernel prints an address as a number in native byte order: little endian on the machines that we support.
	want := strings.ToUpper(hex.EncodeToString([]byte{ip[3], ip[2], ip[1], ip[0]}))
	for _, l := range all {
		if l.Port == port && (l.any || l.addr == want) {
			return l, true
		}
	}
	return Listener{}, false
}
