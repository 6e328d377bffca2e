// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/reconciler/authserver"
	"github.com/knative-cdevents/knative-cdevents/reconciler/pods"
)

// Living knows which pods there are.
type Living interface {
	// Of returns the pods of a Service, from a cache.
	Of(service types.NamespacedName) []*pods.Pod
	// Live asks the API server whether a pod with this UID exists, and has not ended.
	Live(ctx context.Context, pod types.NamespacedName, uid types.UID) (bool, error)
}

const (
	// listedFor is how long a peer stays listed after its pod is gone: the others wait for its lease once they see that.
	listedFor = 2 * time.Minute
	// maxPeers limits what the pods of a Service can store.
	maxPeers = 1000
)

// peers returns those of a plan, with what has become of their pods.
func peers(ctx context.Context, living Living, key types.NamespacedName, of []v1alpha1.PlacementPeer, now time.Time) (
	[]v1alpha1.PlacementPeer, error,
) {
	if len(of) == 0 {
		return nil, nil
	}
	known := living.Of(key)
	var out []v1alpha1.PlacementPeer
	for _, peer := range of {
		i := slices.IndexFunc(known, func(pod *pods.Pod) bool { return pod.UID == peer.UID })
		switch {
		case peer.Gone:
			if now.Sub(peer.GoneSince.Time) > listedFor {
				continue
			}
		case i >= 0 && !known[i].Over():
			peer.Leaving = peer.Leaving || !known[i].Deleting.IsZero()
		default:
			// The cache may not know the pod yet, and members take over what a pod had that is gone.
			live, err := living.Live(ctx, types.NamespacedName{Namespace: key.Namespace, Name: peer.Pod}, peer.UID)
			if err != nil {
				return nil, fmt.Errorf("asking whether pod %s/%s is gone: %w", key.Namespace, peer.Pod, err)
			}
			if !live {
				peer.Gone, peer.GoneSince = true, metav1.NewTime(now.Truncate(time.Second))
			}
		}
		out = append(out, peer)
	}
	return out, nil
}

// Registrar stores the members that register. Every replica does. All members of a Service are in one object, so a
// compare-and-swap puts them in an order.
type Registrar struct {
	Client *client.Placements
	Living Living
	Now    func() time.Time

	mu sync.Mutex
	// turns are those who write to the plan of a Service, or wait for it, by UID of the Service.
	turns map[types.UID]*turn
}

// turn is had by one at a time.
type turn struct {
	taken chan struct{}
	users int
}

// turn waits until no other request of this replica writes to the plan of a Service, so that only replicas compete. All
// pods of a Service may come or go at once. The caller must call done.
func (r *Registrar) turn(ctx context.Context, service types.UID) (done func(), err error) {
	r.mu.Lock()
	if r.turns == nil {
		r.turns = map[types.UID]*turn{}
	}
	mine := r.turns[service]
	if mine == nil {
		mine = &turn{taken: make(chan struct{}, 1)}
		r.turns[service] = mine
	}
	mine.users++
	r.mu.Unlock()
	leave := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if mine.users--; mine.users == 0 {
			delete(r.turns, service)
		}
	}
	select {
	case mine.taken <- struct{}{}:
		return func() { <-mine.taken; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, fmt.Errorf("waiting for other members of the Service that register or leave: %w", context.Cause(ctx))
	}
}

// inTurn has a function store what it makes of the plan of a Service, which is nil if there is none. It is called again
// if another replica was first. It returns the plan that is stored.
func (r *Registrar) inTurn(
	ctx context.Context, service types.UID, store func(last *v1alpha1.ShardPlacement) (*v1alpha1.ShardPlacement, error),
) (stored *v1alpha1.ShardPlacement, err error) {
	done, err := r.turn(ctx, service)
	if err != nil {
		return nil, err
	}
	defer done()
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		last, err := r.Client.Get(ctx, nameOf(service), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			last = nil
		} else if err != nil {
			return err //nolint:wrapcheck // the caller does
		}
		stored, err = store(last)
		return err
	})
	return stored, err //nolint:wrapcheck // the caller does
}

// Register stores a process of a pod in the plan of its Service, and returns the plan. The error is a
// *authserver.RefusedError if the registration is not right.
func (r *Registrar) Register(ctx context.Context, service types.NamespacedName, pod *pods.Pod, address, pin string) (
	*v1alpha1.ShardPlacement, error,
) {
	declared, _, wrong := pod.Declared()
	host, _, err := net.SplitHostPort(address)
	raw, pinErr := hex.DecodeString(pin)
	refuse := func(status int, format string, args ...any) error {
		return &authserver.RefusedError{Status: status, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case wrong != nil || declared.Placement == "":
		return nil, refuse(http.StatusForbidden, "the template of Revision %s asks for no placement; set its annotation %s",
			pod.Revision, v1alpha1.AnnotationPlacement)
	case err != nil || host != pod.IP || pod.IP == "":
		return nil, refuse(http.StatusConflict, "address %q is not one of pod %s, whose IP address is %q", address, pod.Name, pod.IP)
	case pinErr != nil || len(raw) != 32:
		return nil, refuse(http.StatusBadRequest, "pin %.80q is not a SHA-256 in hexadecimal digits", pin)
	}
	peer := v1alpha1.PlacementPeer{Pod: pod.Name, UID: pod.UID, Revision: pod.Revision, Address: address, Pin: pin}
	stored, err := r.inTurn(ctx, pod.ServiceUID, func(last *v1alpha1.ShardPlacement) (*v1alpha1.ShardPlacement, error) {
		if last == nil {
			last = &v1alpha1.ShardPlacement{
				TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.PlacementKind.Kind},
				ObjectMeta: metav1.ObjectMeta{Name: nameOf(pod.ServiceUID)},
				Spec:       v1alpha1.ShardPlacementSpec{Namespace: service.Namespace, Service: service.Name, UID: pod.ServiceUID},
				Status:     v1alpha1.ShardPlacementStatus{Mode: declared.Placement, AtOnce: 1},
			}
		}
		// A plan that lags behind must not keep this pod out: what became of the others is asked for now.
		var err error
		if last.Status.Peers, err = peers(ctx, r.Living, service, last.Status.Peers, r.Now()); err != nil {
			return nil, err
		}
		stored, err := r.add(ctx, last, peer)
		if apierrors.IsAlreadyExists(err) { // another one was first
			return nil, apierrors.NewConflict(v1alpha1.SchemeGroupVersion.WithResource("shardplacements").GroupResource(), last.Name, err)
		}
		return stored, err
	})
	if err != nil {
		return nil, fmt.Errorf("storing pod %s as a member of Service %s: %w", pod.Name, service, err)
	}
	return stored, nil
}

// add stores a peer, unless it is there.
func (r *Registrar) add(ctx context.Context, last *v1alpha1.ShardPlacement, peer v1alpha1.PlacementPeer) (
	*v1alpha1.ShardPlacement, error,
) {
	rest := make([]v1alpha1.PlacementPeer, 0, len(last.Status.Peers)+1)
	for _, one := range last.Status.Peers {
		switch {
		case one.UID == peer.UID && one.Pin == peer.Pin && !one.Gone:
			return last, nil // the answer to the first request was lost
		case one.UID == peer.UID && one.Gone:
			return nil, &authserver.RefusedError{Status: http.StatusForbidden, Message: "pod " + peer.Pod + " is gone"}
		case one.UID == peer.UID:
			// One that has left knew that nothing before it is active either.
			if !one.Left {
				peer.Restarts = one.Restarts + 1
			}
			continue
		case one.Pin == peer.Pin || one.Address == peer.Address && !one.Gone:
			return nil, &authserver.RefusedError{
				Status:  http.StatusConflict,
				Message: "pod " + one.Pod + " has the same address or pin, and is not gone yet; try again",
			}
		}
		rest = append(rest, one)
	}
	if len(rest) >= maxPeers {
		return nil, &authserver.RefusedError{
			Status: http.StatusConflict, Message: fmt.Sprintf("the Service has %d members, and can have no more", maxPeers),
		}
	}
	last.Status.Peers = append(rest, peer)
	issue(&last.Status, last.Status.Version, r.Now())
	if last.ResourceVersion == "" {
		return r.Client.Create(ctx, last, metav1.CreateOptions{}) //nolint:wrapcheck // Register does
	}
	return r.Client.Update(ctx, last, metav1.UpdateOptions{}) //nolint:wrapcheck // Register does
}

// Leave stores that a process of a pod holds no shard any more, and returns the plan. The error is a
// *authserver.RefusedError if there is no such process.
func (r *Registrar) Leave(ctx context.Context, service types.NamespacedName, pod *pods.Pod, pin string) (
	*v1alpha1.ShardPlacement, error,
) {
	stored, err := r.inTurn(ctx, pod.ServiceUID, func(last *v1alpha1.ShardPlacement) (*v1alpha1.ShardPlacement, error) {
		i := -1
		if last != nil {
			i = slices.IndexFunc(last.Status.Peers, func(one v1alpha1.PlacementPeer) bool {
				return one.UID == pod.UID && one.Pin == pin
			})
		}
		if i < 0 {
			return nil, &authserver.RefusedError{
				Status: http.StatusNotFound, Message: fmt.Sprintf("pod %s has no member with the pin %.80q", pod.Name, pin),
			}
		}
		if last.Status.Peers[i].Left {
			return last, nil // the answer to the first request was lost
		}
		last.Status.Peers[i].Left = true
		issue(&last.Status, last.Status.Version, r.Now())
		return r.Client.Update(ctx, last, metav1.UpdateOptions{}) //nolint:wrapcheck // below
	})
	if err != nil {
		return nil, fmt.Errorf("storing that pod %s has left the members of Service %s: %w", pod.Name, service, err)
	}
	return stored, nil
}
