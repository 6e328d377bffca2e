// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// The flags have the names and letters of kubectl's, and connect in the same way.
func TestFlagsConnectAsKubectl(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config")
	err := os.WriteFile(file, []byte(`{"apiVersion": "v1", "kind": "Config", "current-context": "b",
  "clusters": [{"name": "a", "cluster": {"server": "https://a.example"}}, {"name": "b", "cluster": {"server": "https://b.example"}}],
  "users": [{"name": "u", "user": {"token": "t"}}],
  "contexts": [{"name": "a", "context": {"cluster": "a", "user": "u", "namespace": "shop"}}, {"name": "b", "context": {"cluster": "b"}}]}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	kubectl := genericclioptions.NewConfigFlags(true)
	kubectl.CacheDir = nil
	theirs := pflag.NewFlagSet("", pflag.ContinueOnError)
	kubectl.AddFlags(theirs)
	ours := pflag.NewFlagSet("", pflag.ContinueOnError)
	newConnection().addFlags(ours)
	describe := func(s *pflag.FlagSet) map[string][3]string {
		out := map[string][3]string{}
		s.VisitAll(func(f *pflag.Flag) { out[f.Name] = [3]string{f.Shorthand, f.DefValue, f.NoOptDefVal} })
		return out
	}
	if a, b := describe(ours), describe(theirs); !reflect.DeepEqual(a, b) {
		t.Errorf("our flags are\n%v\nand those of kubectl\n%v", a, b)
	}

	for _, args := range [][]string{
		{},
		{"--context", "a"},
		{"--context", "a", "-n", "other", "--token", "x", "--request-timeout", "3s"},
		{"-s", "https://c.example", "--insecure-skip-tls-verify", "--user", "u", "--cluster", "a", "--disable-compression"},
		{"--as", "me", "--as-uid", "7", "--as-group", "g1", "--as-group", "g2", "--as-user-extra", "k=1", "--as-user-extra", "k=2=3"},
		{"--context", "none"},
		{"--tls-server-name", "d.example", "--certificate-authority", "/none", "--client-certificate", "/none", "--client-key", "/none"},
	} {
		args = append(args, "--kubeconfig", file)
		kubectl := genericclioptions.NewConfigFlags(true)
		theirs := pflag.NewFlagSet("", pflag.ContinueOnError)
		kubectl.AddFlags(theirs)
		c := newConnection()
		ours := pflag.NewFlagSet("", pflag.ContinueOnError)
		c.addFlags(ours)
		if err := theirs.Parse(args); err != nil {
			t.Fatal(err)
		}
		if err := ours.Parse(args); err != nil {
			t.Errorf("%q: %v", args, err)
			continue
		}
		want, wantErr := kubectl.ToRESTConfig()
		got, gotErr := c.config().ClientConfig()
		if !reflect.DeepEqual(got, want) || (gotErr == nil) != (wantErr == nil) || gotErr != nil && gotErr.Error() != wantErr.Error() {
			t.Errorf("%q: we connect by\n%v (%v), and kubectl by\n%v (%v)", args, got, gotErr, want, wantErr)
		}
		wantNamespace, _, wantErr := kubectl.ToRawKubeConfigLoader().Namespace()
		gotNamespace, _, gotErr := c.config().Namespace()
		if gotNamespace != wantNamespace || (gotErr == nil) != (wantErr == nil) {
			t.Errorf("%q: namespace %q (%v), and kubectl has %q (%v)", args, gotNamespace, gotErr, wantNamespace, wantErr)
		}
	}
}
