// SPDX-License-Identifier: Apache-2.0

// Command pause holds a pod's namespaces open. It does nothing until it gets a signal.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	<-end
}
