// SPDX-License-Identifier: Apache-2.0

package command

import (
	"math"
	"net/url"
	"os"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/knative-cdevents/knative-cdevents/cli/page"
)

func (e *env) dashboard() *cobra.Command {
	var everywhere, open bool
	port := 0
	c := &cobra.Command{
		Use:   "dashboard [SERVICE]",
		Short: "Serve a page on this machine that shows Services, rollouts and gates as they change",
		Long: "Serves a page on 127.0.0.1 until you press Ctrl-C, and opens it in your browser. It shows what list, history, gate\n" +
			"and why show, and updates itself. It reads with your own rights, and nothing runs in the cluster.\n\n" +
			"The address contains a secret, a new one at each start. To open the page on another machine, forward the port:\n" +
			"ssh -L 8080:127.0.0.1:8080 HOST",
		Example: "  kubectl cdevents dashboard -A\n" +
			"  kubectl cdevents dashboard cart -n shop --port 8080 --open=false",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: e.completeServices,
	}
	c.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "Show all namespaces")
	c.Flags().IntVarP(&port, "port", "p", 0, "The port of 127.0.0.1 to serve the page on; 0 for any free port")
	c.Flags().BoolVar(&open, "open", true, "Open the page in the browser, if the command runs in a terminal")
	c.RunE = func(c *cobra.Command, args []string) error {
		if everywhere && len(args) > 0 {
			return misused("a name and --all-namespaces do not go together; use -n")
		}
		if port < 0 || port > math.MaxUint16 {
			return misused("--port is %d; it must be from 1 to 65535, or 0 for any free port", port)
		}
		namespace, err := e.scope(everywhere)
		if err != nil {
			return err
		}
		r, err := e.reader()
		if err != nil {
			return err
		}
		place := ""
		if len(args) == 1 {
			if err := e.reporter(r).Known(c.Context(), namespace, args[0]); err != nil {
				return err
			}
			place = "#/" + url.PathEscape(namespace) + "/" + url.PathEscape(args[0])
		}
		server, err := page.New(c.Context(), page.Options{
			Reader: r, Namespace: namespace, Cluster: e.cluster(), Port: port, Now: e.Now,
		})
		if err != nil {
			return err
		}
		e.Screen.Printf("%s\n", server.URL()+place)
		e.note("serving the page until you press Ctrl-C; the address contains a secret")
		if open && e.browses() {
			if err := browse(server.URL() + place); err != nil {
				e.note("note: the browser was not opened: %v", err)
			}
		}
		if err := e.Screen.Err(); err != nil {
			return err
		}
		return server.Serve(c.Context())
	}
	return c
}

// cluster is the name of the context, or nothing.
func (e *env) cluster() string {
	if name := e.connection.overrides.CurrentContext; name != "" {
		return name
	}
	raw, err := e.connection.config().RawConfig()
	if err != nil {
		return ""
	}
	return raw.CurrentContext
}

// browses reports whether there is a person with a browser: a terminal and, on Linux, a screen.
func (e *env) browses() bool {
	f, ok := e.Out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return false
	}
	return runtime.GOOS != "linux" || e.Getenv("DISPLAY") != "" || e.Getenv("WAYLAND_DISPLAY") != ""
}

// browse opens an address in the user's browser.
func browse(address string) error {
	name, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	}
	c := exec.Command(name, args...) //nolint:gosec,noctx // a fixed program, with the page's own address; the browser outlives the command
	if err := c.Start(); err != nil {
		return err
	}
	go func() { _ = c.Wait() }() // how the browser ends does not matter
	return nil
}
