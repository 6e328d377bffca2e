// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/spf13/cobra"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/reader"
	"github.com/knative-cdevents/knative-cdevents/cli/released"
)

// versions is what -o json prints.
type versions struct {
	Client     clientVersion      `json:"client"`
	Controller *controllerVersion `json:"controller,omitempty"`
	// Skew says in words whether the two fit together.
	Skew string `json:"skew,omitempty"`
	// Supported is false if they do not.
	Supported *bool `json:"supported,omitempty"`
}

type clientVersion struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

type controllerVersion struct {
	Version string `json:"version"`
	Image   string `json:"image,omitempty"`
	// From is the object that says so.
	From string `json:"from"`
}

func (e *env) version() *cobra.Command {
	client := false
	c := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of the plugin and of the controller, and whether they fit together",
		Long: "Shows the version of this plugin, and that of the controller as its Deployment says it. If you may not read\n" +
			"the Deployment, it is the version of the CustomResourceDefinition of CDEventSource.",
		Example: "  kubectl cdevents version\n  kubectl cdevents version --client -o json",
		Args:    cobra.NoArgs,
	}
	c.Flags().BoolVar(&client, "client", false, "Show the version of the plugin only, without asking the cluster")
	o := addOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		p, err := o.printer()
		if err != nil {
			return err
		}
		v := versions{Client: thisClient()}
		var unread error
		if !client {
			if r, err := e.reader(); err != nil {
				unread = err
			} else if v.Controller, unread = controllerOf(c.Context(), r); unread == nil {
				skew, fine := released.Skew(v.Client.Version, v.Controller.Version)
				v.Skew, v.Supported = skew, &fine
			}
		}
		// Without an answer of the cluster, the version of the plugin is worth printing, too.
		return errors.Join(e.give(o, p, answer{kind: "Version", value: v, show: func() { e.showVersions(v) }}), unread)
	}
	return c
}

func (e *env) showVersions(v versions) {
	e.Screen.Printf("plugin      %s\n", v.Client.Version)
	if v.Controller == nil {
		return
	}
	e.Screen.Printf("controller  %s (%s)\n", v.Controller.Version, v.Controller.From)
	e.Screen.Printf("skew        %s\n", v.Skew)
}

func thisClient() clientVersion {
	out := clientVersion{Version: released.Current(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				out.Commit = s.Value
			}
		}
	}
	return out
}

// controllerOf returns the version of the installation. Fewer users may read a Deployment of the controller's
// namespace than the definitions, and in the serverless mode the Deployment is there, too.
func controllerOf(ctx context.Context, r *reader.Reader) (*controllerVersion, error) {
	d, noDeployment := r.Deployment(ctx, r.System, "controller")
	if d != nil {
		return &controllerVersion{
			Version: versionOf(d.Labels), Image: imageOf(d), From: "Deployment controller in namespace " + r.System,
		}, nil
	}
	name := v1alpha1.SourceResource.GroupResource().String()
	v, found, err := r.DefinitionVersion(ctx, name)
	switch {
	case err == nil && found:
		return &controllerVersion{Version: orDevel(v), From: "CustomResourceDefinition " + name}, nil
	case noDeployment != nil:
		return nil, noDeployment
	case err != nil:
		return nil, err
	}
	return nil, &reader.Error{Kind: reader.ErrNotInstalled, Message: "knative-cdevents is not installed in this cluster: " +
		"there is neither a Deployment controller in namespace " + r.System + " nor CustomResourceDefinition " + name +
		"; if the controller is in another namespace, say which with --system-namespace"}
}

func versionOf(labels map[string]string) string { return orDevel(labels[reader.VersionLabel]) }

// orDevel is for what says no version.
func orDevel(v string) string {
	if v == "" {
		return released.Devel
	}
	return v
}

func imageOf(d *appsv1.Deployment) string {
	for i := range d.Spec.Template.Spec.Containers {
		if c := &d.Spec.Template.Spec.Containers[i]; c.Name == "controller" {
			return c.Image
		}
	}
	return ""
}
