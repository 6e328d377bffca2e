// SPDX-License-Identifier: Apache-2.0

package credentials_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials/clientset"
	httptransport "github.com/knative-cdevents/knative-cdevents/emitter/transport/http"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

const (
	shop       = "shop"
	controller = "system:serviceaccount:knative-cdevents:controller"
	sink       = "https://hooks.example.com"
)

// city is a cluster in which the controller has only the permissions that the test binds.
type city struct {
	t       *testing.T
	admin   kubernetes.Interface
	limited kubernetes.Interface
	keeper  *credentials.Keeper
	config  *rest.Config
}

func newCity(t *testing.T) *city {
	t.Helper()
	cp := controlplane.Start(t)
	c := &city{t: t, config: cp.Config()}
	var err error
	c.admin, err = kubernetes.NewForConfig(cp.Config())
	c.must(err)
	c.limited, err = kubernetes.NewForConfig(cp.As(controller, "system:serviceaccounts", "system:serviceaccounts:knative-cdevents"))
	c.must(err)
	c.keeper = credentials.NewKeeper(clientset.API{Interface: c.limited}, httptransport.Schemes)
	_, err = c.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}}, metav1.CreateOptions{})
	c.must(err)
	return c
}

func (c *city) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// file reads a file of the repository.
func (c *city) file(path ...string) []byte {
	c.t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{"..", "..", ".."}, path...)...))
	c.must(err)
	return content
}

// ship applies a ClusterRole from config.
func (c *city) ship(file string) string {
	c.t.Helper()
	role := &rbacv1.ClusterRole{}
	c.must(yaml.UnmarshalStrict(c.file("config", filepath.FromSlash(file)), role))
	_, err := c.admin.RbacV1().ClusterRoles().Create(c.t.Context(), role, metav1.CreateOptions{})
	c.must(err)
	return role.Name
}

// bind binds a ClusterRole in the namespace, as "kubectl create rolebinding" does.
func (c *city) bind(role string) {
	c.t.Helper()
	_, err := c.admin.RbacV1().RoleBindings(shop).Create(c.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "knative-cdevents", Name: "controller"}},
	}, metav1.CreateOptions{})
	c.must(err)
}

// documented creates an object from the example for Secrets in docs/security.md.
func (c *city) documented(kind string, create func(document []byte) error) {
	c.t.Helper()
	_, after, found := strings.Cut(string(c.file("docs", "security.md")), "This is a complete example:")
	_, after, begins := strings.Cut(after, "```yaml\n")
	example, _, ends := strings.Cut(after, "```")
	if !found || !begins || !ends {
		c.t.Fatal("the example was not found in docs/security.md")
	}
	for document := range strings.SplitSeq(example, "\n---\n") {
		if strings.Contains(document, "\nkind: "+kind+"\n") {
			c.must(create([]byte(document)))
			return
		}
	}
	c.t.Fatalf("the example has no %s", kind)
}

func (c *city) shows(w credentials.References) (string, error) {
	u, err := url.Parse(sink)
	c.must(err)
	shown, err := c.keeper.For(c.t.Context(), w, u)
	if err != nil {
		return "", err
	}
	req := &http.Request{Header: http.Header{}}
	shown.Authorize(req)
	return req.Header.Get("Authorization"), nil
}

// eventually waits until a new permission takes effect and the keeper asks again.
func (c *city) eventually(w credentials.References) string {
	c.t.Helper()
	var err error
	for range 60 {
		var got string
		if got, err = c.shows(w); err == nil {
			return got
		}
		time.Sleep(250 * time.Millisecond)
	}
	c.t.Fatalf("not within 15 s: %v", err)
	return ""
}

func checkReason(t *testing.T, err error, reason string) {
	t.Helper()
	var p *credentials.WithheldError
	if !errors.As(err, &p) || p.Reason != reason {
		t.Errorf("got %v, want %s", err, reason)
	}
}

// TestAgainstARealAPIServer is a single test because its steps build on each other.
func TestAgainstARealAPIServer(t *testing.T) {
	c := newCity(t)
	ctx := t.Context()

	// A Secret, before and after the permission to read it is granted.
	c.ship("200-clusterrole-secrets.yaml")
	c.documented("Secret", func(document []byte) error {
		secret := &corev1.Secret{}
		c.must(yaml.UnmarshalStrict(document, secret))
		_, err := c.admin.CoreV1().Secrets(shop).Create(ctx, secret, metav1.CreateOptions{})
		return err
	})
	ours, err := client.New(c.config)
	c.must(err)
	var source *v1alpha1.CDEventSource
	c.documented("CDEventSource", func(document []byte) error {
		source = &v1alpha1.CDEventSource{}
		c.must(yaml.UnmarshalStrict(document, source))
		source, err = ours.CDEventSources(shop).Create(ctx, source, metav1.CreateOptions{})
		return err
	})
	header := credentials.OfSink(source)
	_, err = c.shows(header)
	checkReason(t, err, "SecretForbidden")
	c.documented("RoleBinding", func(document []byte) error {
		binding := &rbacv1.RoleBinding{}
		c.must(yaml.UnmarshalStrict(document, binding))
		_, err := c.admin.RbacV1().RoleBindings(shop).Create(ctx, binding, metav1.CreateOptions{})
		return err
	})
	if got := c.eventually(header); got != "Bearer 5f4dcc3b5aa765d61d83" {
		t.Errorf("got credentials %q", got)
	}
	// The permission covers nothing else.
	if _, err := c.limited.CoreV1().Secrets(shop).List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("Secrets can be listed: %v", err)
	}
	if _, err := c.limited.CoreV1().Secrets("default").Get(ctx, "any", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("Secrets of another namespace can be read: %v", err)
	}

	// The same with a token.
	broker := header
	broker.Authorization, broker.Audience = v1alpha1.SecretKey{}, "https://broker.example"
	_, err = c.shows(broker)
	checkReason(t, err, "IdentityForbidden")
	c.bind(c.ship("optional/clusterrole-identities.yaml"))
	token, ok := strings.CutPrefix(c.eventually(broker), "Bearer ")
	if !ok {
		t.Fatal("not a bearer token")
	}
	claims := c.read(token)
	identity := broker.ServiceAccount()
	if !slices.Equal(claims.Audience, []string{"https://broker.example"}) || claims.Subject != "system:serviceaccount:shop:"+identity ||
		time.Until(time.Unix(claims.Expiry, 0)) < 50*time.Minute {
		t.Errorf("%+v", claims)
	}
	account, err := c.admin.CoreV1().ServiceAccounts(shop).Get(ctx, identity, metav1.GetOptions{})
	c.must(err)
	if len(account.OwnerReferences) != 1 || account.OwnerReferences[0].UID != broker.UID || account.OwnerReferences[0].Kind != "CDEventSource" {
		t.Errorf("%+v", account.OwnerReferences)
	}
	if again := c.eventually(broker); again != "Bearer "+token {
		t.Error("the token was not kept")
	}

	// The token is for the sink's audience, so the API server rejects it.
	config := rest.AnonymousClientConfig(c.config)
	config.BearerToken = token
	stranger, err := kubernetes.NewForConfig(config)
	c.must(err)
	if _, err := stranger.CoreV1().Namespaces().Get(ctx, shop, metav1.GetOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("the API server accepts the token: %v", err)
	}
	// The controller may neither change nor delete ServiceAccounts.
	if err := c.limited.CoreV1().ServiceAccounts(shop).Delete(ctx, identity, metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the controller can delete a ServiceAccount: %v", err)
	}
}

type claims struct {
	Audience []string `json:"aud"`
	Subject  string   `json:"sub"`
	Expiry   int64    `json:"exp"`
}

func (c *city) read(token string) claims {
	c.t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		c.t.Fatalf("the token has %d parts, want 3", len(parts))
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	c.must(err)
	var out claims
	c.must(json.Unmarshal(payload, &out))
	return out
}
