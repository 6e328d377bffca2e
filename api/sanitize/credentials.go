// SPDX-License-Identifier: Apache-2.0

package sanitize

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Hidden replaces the value of a credential in the query of a URL.
const Hidden = "REDACTED"

// WithoutCredentials returns s without the credentials in it. Everything that leaves the program and that somebody else
// wrote passes through it: events, the ledger, statuses, logs and traces.
//
// s may be one URL, or a text with any number of them. They may be percent-encoded, as in a package URL, or escaped as
// in JSON. What counts as a credential:
//   - the userinfo of a URL, always, with the name in it: a token often stands there without a password. It is cut, so
//     that the URL still names the same repository or host. "user:password@host/path" without a scheme counts, too;
//     the "git@" of "git@host:path" does not, because no password can follow it.
//   - the value of a parameter whose name is that of a credential, such as access_token or X-Amz-Signature. It becomes
//     REDACTED. The fragment counts as a query: OAuth puts tokens there.
//
// Outside of URLs, too:
//   - a token whose form says so, such as ghp_… of GitHub, glpat-… of GitLab, AKIA… of AWS, and a JSON Web Token; and a
//     private key in PEM.
//   - what follows "Authorization:" or "Bearer".
//   - the value of name=value, where the name ends as one of a credential does, such as REGISTRY_PASSWORD.
//
// What is in the path, and has no such form, is kept. It cannot be told from the name of something.
func WithoutCredentials(s string) string { return withoutTokens(withoutURLs(s)) }

// withoutURLs returns s without the credentials in its URLs.
func withoutURLs(s string) string {
	if !strings.ContainsAny(s, `@=%\`) {
		return s
	}
	s = userinfo.ReplaceAllStringFunc(s, func(match string) string {
		if actorSystem.MatchString(match) {
			return match
		}
		return userinfo.ReplaceAllString(match, "$1")
	})
	s = userinfoWithSlash.ReplaceAllString(s, "$1")
	s = encodedUserinfo.ReplaceAllString(s, "$1")
	s = twiceEncodedUserinfo.ReplaceAllString(s, "$1")
	s = bareUserinfo.ReplaceAllStringFunc(s, func(match string) string {
		m := bareUserinfo.FindStringSubmatch(match)
		if digest.MatchString(m[2]) {
			return match
		}
		return m[1] + m[2]
	})
	return withoutParameters(s)
}

var (
	// userinfo is what stands between the scheme and the last "@" before the path. Browsers accept backslashes, and
	// JSON may escape slashes.
	userinfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*:(?:\\u002[fF]|\\?[/\\])+)[^\s/\\?#"<>]*@`)
	// actorSystem is no credential: it is the name of a system of actors in an address of Akka or Pekko.
	actorSystem = regexp.MustCompile(`^(?:akka|pekko)(?:\.ssl)?(?:\.tcp)?://[A-Za-z0-9_-]+@$`)
	// userinfoWithSlash has a slash, which must be encoded there, and often is not: base64 has it. What follows the colon
	// is no port.
	userinfoWithSlash = regexp.MustCompile(
		`([A-Za-z][A-Za-z0-9+.-]*:(?:\\?[/\\])+)[^\s/\\?#"<>@:\[\]]*:[0-9]*[^\s0-9/\\?#"<>@][^\s"<>@]*@`,
	)
	// encodedUserinfo is the same in a URL that is a parameter of another one.
	encodedUserinfo = regexp.MustCompile(
		`(?i)((?::|%3A)(?:%2F){2})(?:[^\s/?#&"<>%]|%[013-9A-F][0-9A-F]|%2[0-9A-E])*(?:%40|@)`,
	)
	// twiceEncodedUserinfo is the same in a URL in a parameter of such a URL.
	twiceEncodedUserinfo = regexp.MustCompile(
		`(?i)(%253A(?:%252F){2})(?:[^\s/?#&"<>%]|%25(?:[013-9A-F][0-9A-F]|2[0-9A-E]))*%2540`,
	)
	// bareUserinfo is a name and a password before a host, without a scheme.
	bareUserinfo = regexp.MustCompile(
		"((?:^|[\\s\"'`<(=,;])(?://)?)[^\\s/\\\\?#@:\"'`<>(=,;]*:[^\\s/\\\\?#@\"'<>,;]+@" + `([A-Za-z0-9.-]+[:/]|\[)`,
	)
	// digest begins like a host. It follows the tag of an image.
	digest = regexp.MustCompile(`^(?:sha256|sha384|sha512):$`)
	// parameter is one of a query, a fragment or a path (";name=value"). JSON may escape what is before and after its
	// name, as Go does with "&", and it may be percent-encoded, twice in a URL in a parameter of such a URL.
	parameter = regexp.MustCompile(
		`(?i)(?:[?&;#]|%(?:25)?(?:3F|26|23|3B)|\\u00(?:3F|26|23|3B))([A-Z0-9_.~%\[\]-]{1,96}?)(?:=|%(?:25)?3D|\\u003D)`,
	)
	// value is that of a parameter.
	value = regexp.MustCompile(`^[^&;#\s"<>]*`)
)

// withoutParameters hides the values of parameters that are credentials. It looks into the values of others, which may
// be URLs.
func withoutParameters(s string) string {
	var out strings.Builder
	for {
		m := parameter.FindStringSubmatchIndex(s)
		if m == nil {
			out.WriteString(s)
			return out.String()
		}
		name, end := s[m[2]:m[3]], m[1]
		out.WriteString(s[:end])
		s = s[end:]
		if isCredential(name) {
			out.WriteString(Hidden)
			s = s[len(value.FindString(s)):]
		}
	}
}

// Names of parameters that are credentials: as a whole, or by their end, such as deploy_token.
var (
	credentialNames = []string{
		"auth",
		"key",
		"sig",
		"pwd",
		"pass",
		"jwt",
		"sas",
		"session",
		"sessionid",
		"jsessionid",
		"awsaccesskeyid",
	}
	credentialEnds = []string{
		"token",
		"secret",
		"password",
		"passwd",
		"passphrase",
		"signature",
		"credential",
		"credentials",
		"authorization",
		"apikey",
		"accesskey",
		"privatekey",
		"secretkey",
		"subscriptionkey",
		"functionskey",
		"sharedkey",
	}
)

// isCredential reports whether a parameter of this name holds a credential. Upper case, and "-", "_" and "." between
// words, make no difference.
func isCredential(name string) bool {
	if decoded, err := url.QueryUnescape(name); err == nil {
		name = decoded
	}
	name = plainName(name)
	return slices.Contains(credentialNames, name) || endsAsCredential(name)
}

func plainName(name string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_.~[]", r) {
			return -1
		}
		return r
	}, name))
}

func endsAsCredential(name string) bool {
	return slices.ContainsFunc(credentialEnds, func(end string) bool { return strings.HasSuffix(name, end) })
}
