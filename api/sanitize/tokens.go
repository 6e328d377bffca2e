// SPDX-License-Identifier: Apache-2.0

package sanitize

import (
	"regexp"
	"slices"
	"strings"
)

// marks are in every text that has a token of a known form.
var marks = []string{
	"gh", "github_pat_", "gl", "xox", "npm_", "dckr_", "AKIA", "ASIA", "AIza", "eyJ", "PRIVATE KEY",
}

var (
	// token is one whose form says so: those of GitHub, GitLab, Slack, npm and Docker Hub, the keys of AWS and Google, and
	// JSON Web Tokens, which ServiceAccounts have. Nothing that is no credential looks like them.
	token = regexp.MustCompile(
		`\b(?:gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|` +
			`gl(?:pat|ptt|dt|rt|rtr|cbt|ft|soat|imt|oas)-[A-Za-z0-9_-]{20}(?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?|glagent-[A-Za-z0-9_-]{50}|` +
			`xox[a-z]-[A-Za-z0-9-]{10,}|npm_[A-Za-z0-9]{36,}|dckr_[a-z]{3}_[A-Za-z0-9_-]{20,}|` +
			`A(?:KIA|SIA)[A-Z0-9]{16}\b|AIza[A-Za-z0-9_-]{35}|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)`,
	)
	// privateKey is one in PEM, cut off or not. JSON escapes its lines.
	privateKey = regexp.MustCompile(
		`-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]{0,32}PRIVATE KEY-----|$)`,
	)
	// authorization is the header, with or without a scheme.
	authorization = regexp.MustCompile(
		`(?i)(\bauthorization\\?["']?\s*[:=]\s*\\?["']?\[?(?:(?:bearer|basic|token|negotiate|digest|apikey)\s+)?)[^\s"'\\,;\]]+`,
	)
	// bearer is a token after its scheme. "Bearer authentication" is none.
	bearer = regexp.MustCompile(`(?i)(\bbearer\s+)([A-Za-z0-9._~+/-]{16,}=*)`)
	// assignment is a variable or a flag with its value.
	assignment = regexp.MustCompile(
		"(?i)(^|[\\s\"'`,(\\[{|>])([A-Z0-9_.-]{1,96})=" + `(\\?"[^"\\]*\\?"|'[^']*'|[^\s"'<>,;&)\]}=\\][^\s"'<>,;&)\]}\\]*)`,
	)
)

// withoutTokens hides the credentials that stand outside of URLs. It knows a token by its form, and any other by what
// is before it. A text in which only a reader finds the credential keeps it.
func withoutTokens(s string) string {
	if slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(s, m) }) {
		s = token.ReplaceAllString(s, Hidden)
		s = privateKey.ReplaceAllString(s, Hidden)
	}
	lower := strings.ToLower(s)
	if strings.Contains(lower, "authorization") {
		s = authorization.ReplaceAllString(s, "${1}"+Hidden)
	}
	if strings.Contains(lower, "bearer") {
		s = bearer.ReplaceAllStringFunc(s, func(match string) string {
			if !strings.ContainsAny(match, "0123456789") {
				return match
			}
			return bearer.ReplaceAllString(match, "${1}"+Hidden)
		})
	}
	if !strings.Contains(s, "=") {
		return s
	}
	return assignment.ReplaceAllStringFunc(s, func(match string) string {
		m := assignment.FindStringSubmatch(match)
		if !endsAsCredential(plainName(m[2])) {
			return match
		}
		return m[1] + m[2] + "=" + Hidden
	})
}
