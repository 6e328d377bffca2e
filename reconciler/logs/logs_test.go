// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/logging"
)

// whole is a stringer that quotes a URL.
type whole struct{ u *url.URL }

func (w whole) String() string { return "to " + w.u.String() }

func TestNothingIsLoggedWithCredentials(t *testing.T) {
	const secret = "s3cret-T0ken"
	u := &url.URL{Scheme: "https", User: url.User(secret), Host: "hook.example", RawQuery: "token=" + secret}
	var written bytes.Buffer
	to := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&written),
		zapcore.InfoLevel)
	ctx := WithoutCredentials(WithoutCredentials(logging.WithLogger(t.Context(), zap.New(to).Sugar())))
	log := logging.FromContext(ctx)

	log.With("with", u.String()).Infow("asking "+u.String(),
		"text", u.String(), "error", &url.Error{Op: "Get", URL: u.String(), Err: errors.New("refused")}, "wrapped",
		fmt.Errorf("sending to %s: %w", u, errors.New("x")),
		"stringer", whole{u}, "struct", struct{ URL string }{u.String()}, "list", []string{u.String()}, "map",
		map[string]any{"url": u.String()}, "bytes", []byte(u.String()),
		"key", types.NamespacedName{Namespace: "shop", Name: "cart"}, "count", 7, "nothing", nil, "url", u)
	log.Infof("asking %s", u)
	log.Named("sub").Error(u)
	log.Debugw("not written", "url", u.String())

	got := written.String()
	if strings.Contains(got, secret) {
		t.Error(got)
	}
	for _, word := range []string{
		`"count":7`, "hook.example", `"key":"shop/cart"`, `"logger":"sub"`, "refused",
		`"struct":`, `"with":"https://hook.example?token=REDACTED"`,
	} {
		if !strings.Contains(got, word) {
			t.Errorf("%s is missing in %s", word, got)
		}
	}
	if strings.Count(got, "\n") != 3 {
		t.Error(got)
	}
}
