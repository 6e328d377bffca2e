// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/host"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/node"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/registry"
)

func (p *Platform) tekton(ctx context.Context) error {
	shell, err := p.shell(ctx)
	if err != nil {
		return err
	}
	for _, module := range []string{"github.com/tektoncd/pipeline", "github.com/tektoncd/triggers"} {
		part := filepath.Base(module)
		dir, err := p.builder.ModuleDir(ctx, part, module)
		if err != nil {
			return err
		}
		// Leave out the resolvers, which fetch remote definitions and need an image with git and tini. Nothing here is
		// remote.
		objects, err := read(func(path string) bool { return filepath.Base(path) == "resolvers-deployment.yaml" }, filepath.Join(dir, "config"))
		if err != nil {
			return err
		}
		useShell(objects, shell)
		if err := p.install(ctx, part, "tekton-pipelines", objects, nil); err != nil {
			return err
		}
	}
	return p.settle(ctx, "tekton-pipelines")
}

// shell is an image with the machine's static busybox. Tekton needs it to install the scripts of steps, and the
// tests and the demo run their scripts in it.
func (p *Platform) shell(ctx context.Context) (string, error) {
	path := host.Program("busybox")
	list, err := host.Run(ctx, "", path, "--list")
	if err != nil {
		return "", err
	}
	files := []registry.File{
		{Name: "bin", Dir: true, Mode: 0o755},
		{Name: "bin/busybox", Mode: 0o755, From: path},
	}
	for name := range strings.FieldsSeq(list) {
		if name != "busybox" {
			files = append(files, registry.File{Name: "bin/" + name, Link: "busybox", Mode: 0o777})
		}
	}
	version, err := host.Run(ctx, "", "dpkg-query", "-W", "-f", "${Version}", "busybox-static")
	if err != nil {
		return "", err
	}
	return p.node.PushImage(ctx, node.Program{Name: "busybox", Entrypoint: []string{"/bin/sh"}, User: "65532:65532"}, version, files...)
}

// useShell replaces the shell image in the controller's arguments, which is in a remote registry.
func useShell(objects []object, image string) {
	for _, o := range objects {
		for _, c := range containers(o) {
			args, _ := c["args"].([]any) // absent: nothing to replace
			for i := range args {
				if args[i] == "-shell-image" && i+1 < len(args) {
					args[i+1] = image
				}
			}
		}
	}
}
