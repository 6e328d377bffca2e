// SPDX-License-Identifier: Apache-2.0

package sanitize

import (
	"fmt"
	"strings"
	"testing"
)

func TestWithoutCredentials(t *testing.T) {
	const digest = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	for in, want := range map[string]string{
		// Userinfo, with and without a password.
		"https://gitlab-ci-token:64_Secret@gitlab.example.com/team/shop.git": "https://gitlab.example.com/team/shop.git",
		"https://ghs_Secret@github.com/acme/shop":                            "https://github.com/acme/shop",
		"https://:Secret@example.com":                                        "https://example.com",
		"ssh://git@example.com:22/a.git":                                     "ssh://example.com:22/a.git",
		"git+https://u:p@example.com/a@v1":                                   "git+https://example.com/a@v1",
		"HTTPS://u:p@[fd00::7]:6443/":                                        "HTTPS://[fd00::7]:6443/",
		"https://u:a@b:c@example.com/@scope/pkg":                             "https://example.com/@scope/pkg",
		"https://u:ab/c+d==@example.com/x":                                   "https://example.com/x",
		"https://u:8a/b@example.com/x":                                       "https://example.com/x",
		`https:\/\/u:p@example.com`:                                          `https:\/\/example.com`,
		`Get "https://u:p@example.com/": dial tcp: refused`:                  `Get "https://example.com/": dial tcp: refused`,
		"two: https://a:b@one.example, http://c@two.example":                 "two: https://one.example, http://two.example",
		"u:p@example.com/a":                                                  "example.com/a",
		"KIND=u:p@example.com:8443":                                          "KIND=example.com:8443",
		"pkg:oci/a?repository_url=https%3A%2F%2Fu%3Ap@example.com%2Fa":       "pkg:oci/a?repository_url=https%3A%2F%2Fexample.com%2Fa",
		"pkg:oci/a?download_url=https%3a%2f%2fu%3Ap%40example.com%2Fa":       "pkg:oci/a?download_url=https%3a%2f%2fexample.com%2Fa",
		// Parameters.
		"https://example.com/?access_token=Secret":                                   "https://example.com/?access_token=REDACTED",
		"https://example.com/?a=1&Private-Token=Secret&b=2":                          "https://example.com/?a=1&Private-Token=REDACTED&b=2",
		"https://s3.example.com/a?X-Amz-Credential=S&X-Amz-Date=1&X-Amz-Signature=S": "https://s3.example.com/a?X-Amz-Credential=REDACTED&X-Amz-Date=1&X-Amz-Signature=REDACTED",
		"https://a.example/?sv=1&sig=S%2B%3D":                                        "https://a.example/?sv=1&sig=REDACTED",
		"https://a.example/#access_token=S&state=x":                                  "https://a.example/#access_token=REDACTED&state=x",
		"https://a.example/p;jsessionid=S?x=1":                                       "https://a.example/p;jsessionid=REDACTED",
		"https://a.example/?%74oken=S":                                               "https://a.example/?%74oken=REDACTED",
		"https://a.example/?deploy_token=S and more":                                 "https://a.example/?deploy_token=REDACTED and more",
		"https://a.example/?next=https%3A%2F%2Fb.example%2F%3Ftoken%3DS%26x=":        "https://a.example/?next=https%3A%2F%2Fb.example%2F%3Ftoken%3DREDACTED",
		"https://a.example/?filter[api_key]=S":                                       "https://a.example/?filter[api_key]=REDACTED",
		// Escaped in JSON, as error messages quote it, and encoded twice.
		`{"url":"https://s3.example.com/a?X-Amz-Date=1\u0026X-Amz-Signature=S"}`:     `{"url":"https://s3.example.com/a?X-Amz-Date=1\u0026X-Amz-Signature=REDACTED"}`,
		`https://a.example/\u003faccess_token\u003dS`:                                `https://a.example/\u003faccess_token\u003dREDACTED`,
		`https:\u002f\u002fu:p@example.com/a`:                                        `https:\u002f\u002fexample.com/a`,
		"//u:p@example.com/a":                                                        "//example.com/a",
		"https://a.example/p%3Btoken=S":                                              "https://a.example/p%3Btoken=REDACTED",
		"https://a.example/?next=https%253A%252F%252Fu%253Ap%2540b.example%252Fa":    "https://a.example/?next=https%253A%252F%252Fb.example%252Fa",
		"https://a.example/?next=https%253A%252F%252Fb.example%252F%253Ftoken%253DS": "https://a.example/?next=https%253A%252F%252Fb.example%252F%253Ftoken%253DREDACTED",
	} {
		if got := WithoutCredentials(in); got != want {
			t.Errorf("%s\nbecame %s\nwant   %s", in, got, want)
		}
	}
	// What is no credential stays as it is.
	for _, s := range []string{
		"", "main", "Renée Ægir <renee@example.com>", "mailto:renee@example.com", "git@gitlab.example.com:team/shop.git",
		"acme@vs-ssh.visualstudio.com:v3/acme/Project/Repo", "https://example.com:8080/@scope/pkg@1.2", "https://[fd00::7]:6443/a@b",
		"registry.example.com:5000/a@" + digest, "hello:1.2@" + digest, "docker.io/acme/hello:1.4.2@" + digest,
		"pkg:oci/a@sha256%3A9f86?repository_url=registry.example.com:5000/team/a&tag=1", "pkg:generic/x@1?monkey=1&design=2&tokens=3&keyword=a",
		"members that others cannot reach: pekko://cart@10.0.0.3:25520, akka.tcp://cart-1@10.0.0.4:2552/user/a@b",
		"https://a.example/?next=https%253A%252F%252Fb.example%252F%2540scope%252Fa", "https://a.example//x/y:1", `{"a":"b\u0026c=d"}`,
		"KIND=3d3c8f7e-0a5e-4f7e-9a2a-5c9b1a7d4e60", "a = b; c=d", "100 %", "https://dev.azure.com/acme/My Project/_git/shop",
	} {
		if got := WithoutCredentials(s); got != s {
			t.Errorf("%s\nbecame %s", s, got)
		}
	}
}

// FuzzWithoutCredentials plants a secret in a URL in every place that counts, and any text around it.
func FuzzWithoutCredentials(f *testing.F) {
	f.Add("https", "ci", "example.com", "/a", "error: ")
	f.Add("git+ssh", "", "[fd00::1]:22", "/a/@b/c", "a@b:c=")
	f.Add("http", "%41:", "a.example:80", "?x=1&y", "\"<https://")
	f.Fuzz(func(t *testing.T, scheme, user, host, path, around string) {
		const secret = "s3cr3t-T0k/n+=="
		word := func(s string) string {
			return strings.Map(func(r rune) rune {
				if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:%[]", r) {
					return r
				}
				return -1
			}, s)
		}
		scheme = "x" + strings.NewReplacer(":", "", "%", "", "[", "", "]", "", "~", "", "_", "").Replace(word(scheme))
		user, host = strings.ReplaceAll(word(user), ":", ""), "h"+word(host)
		plain := strings.ReplaceAll(secret, "/", "")
		for _, u := range []string{
			fmt.Sprintf("%s://%s@%s%s", scheme, plain, host, path),
			fmt.Sprintf("%s://%s:%s@%s%s", scheme, user, plain, host, path),
			fmt.Sprintf("%s://%s/a?x=1&access_token=%s&y=2", scheme, host, secret),
			fmt.Sprintf("%s://%s/a?x=1#id_token=%s", scheme, host, secret),
			fmt.Sprintf(`%s://%s/a?x=1\u0026access_token=%s\u0026y=2`, scheme, host, secret),
		} {
			got := WithoutCredentials(around + " " + u)
			if strings.Contains(got, "s3cr3t") {
				t.Errorf("%q became %q", around+" "+u, got)
			}
			if again := WithoutCredentials(got); again != got {
				t.Errorf("%q became %q, and then %q", u, got, again)
			}
		}
	})
}
