// SPDX-License-Identifier: Apache-2.0

package sanitize

import (
	"strings"
	"testing"
)

// Credentials are cut outside of URLs, too, where their form or what is before them says so.
func TestTokensOutsideOfURLs(t *testing.T) {
	t.Parallel()
	letters := "abcdefGHIJ0123456789klmnopQRSTUVWXYZ"
	jwt := "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzaG9wIn0.c2lnbmF0dXJl"
	for in, want := range map[string]string{
		"pushed with ghp_" + letters + ".":                                        "pushed with REDACTED.",
		"ghs_" + letters:                                                          "REDACTED",
		"github_pat_" + letters:                                                   "REDACTED",
		"(glpat-" + letters + ")":                                                 "(REDACTED)",
		"glpat-abcdefghijklmnopqrst.01.0w1abcdef":                                 "REDACTED",
		"gldt-AbcdefghijklMnopqrst":                                               "REDACTED",
		"npm_" + letters:                                                          "REDACTED",
		"dckr_pat_" + letters:                                                     "REDACTED",
		"key AKIAIOSFODNN7EXAMPLE is not allowed":                                 "key REDACTED is not allowed",
		"ASIAIOSFODNN7EXAMPLE":                                                    "REDACTED",
		"xoxb-123456789012-" + letters:                                            "REDACTED",
		"AIza" + letters[:35]:                                                     "REDACTED",
		"token " + jwt + " has expired":                                           "token REDACTED has expired",
		"https://example.com/hooks/ghp_" + letters:                                "https://example.com/hooks/REDACTED",
		"Authorization: Bearer " + letters:                                        "Authorization: Bearer REDACTED",
		"Authorization: Basic dTpw, then 403":                                     "Authorization: Basic REDACTED, then 403",
		"authorization: hunter2":                                                  "authorization: REDACTED",
		`{"Authorization":"Bearer abc.def"}`:                                      `{"Authorization":"Bearer REDACTED"}`,
		`{\"Authorization\":\"token abc\"}`:                                       `{\"Authorization\":\"token REDACTED\"}`,
		"map[Authorization:[Bearer abc] Accept:[*/*]]":                            "map[Authorization:[Bearer REDACTED] Accept:[*/*]]",
		"sent bearer " + letters + "== to it":                                     "sent bearer REDACTED to it",
		"token=Secret":                                                            "token=REDACTED",
		"exit 1: REGISTRY_PASSWORD=hunter2 docker login":                          "exit 1: REGISTRY_PASSWORD=REDACTED docker login",
		"AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG+bPxRfiCY==":                  "AWS_SECRET_ACCESS_KEY=REDACTED",
		"--private-token=Secret --verbose":                                        "--private-token=REDACTED --verbose",
		`run: api_key="a b c" failed`:                                             `run: api_key=REDACTED failed`,
		`"run: api_key=\"a b\" failed"`:                                           `"run: api_key=REDACTED failed"`,
		"client_secret='a b',x=1":                                                 "client_secret=REDACTED,x=1",
		"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nx": "REDACTED\nx",
		`-----BEGIN PRIVATE KEY-----\nMIIE`:                                       "REDACTED",
	} {
		got := WithoutCredentials(in)
		if got != want {
			t.Errorf("%s\nbecame %s\nwant   %s", in, got, want)
		}
		if again := WithoutCredentials(got); again != got {
			t.Errorf("%s\nbecame %s", got, again)
		}
	}
	for _, s := range []string{
		"3b53a1ca0b2f4c7e9d8a6f5e4d3c2b1a09f8e7d6", "3b53a1ca", "3d3c8f7e-0a5e-4f7e-9a2a-5c9b1a7d4e60",
		"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"registry.example.com/gh/shop@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"Bearer authentication is required", "the bearer token has expired", "invalid token: signature mismatch",
		`secret "registry-credentials" not found`, "secret: not found", "password: must not be empty", "no Authorization header",
		"authorization failed", "a gateway-of-the-platform-team-with-a-long-name", "glance-api-of-the-platform-team-with-a-long-name",
		"glooedge-gateway-proxy-in-the-platform-cluster-00001",
		"key=shop/cart", "auth=none", "tokens=3", "monkey=1", "if token == nil", "token= ", "author=Renée", "env=prod,tier=web",
		"ConfigMap gh-pages-of-the-documentation", "SAKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLES", "eyJ", "eyJhbGciOiJSUzI1NiJ9",
		"-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----", "xox-1", "cart-00002", "v1.2.3+build.20261127",
		"a request took 0.5 s; 12 = 3 * 4", strings.Repeat("a", 64),
	} {
		if got := WithoutCredentials(s); got != s {
			t.Errorf("%s\nbecame %s", s, got)
		}
	}
}
