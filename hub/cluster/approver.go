package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/event"
)

const (
	// requestsEvery and requestsBurst limit the requests of one requester: a burst, and then one per requestsEvery.
	requestsEvery = 10 * time.Second
	requestsBurst = 6
	// annotationSpent is an annotation on a bootstrap ServiceAccount. It is written before the first request is approved. It is read when
	// another request arrives, and to decide when to delete the account. Its value is the resourceVersion that the member's Lease had.
	annotationSpent = "fleet.kruise.io/token-spent"
)

// approver approves or denies the certificate requests of members.
type approver struct {
	client client.Client
	// reader reads from the apiserver. A request may arrive before the cache shows the objects it refers to, and a denial is final.
	reader client.Reader
	clock  clock.PassiveClock
	events event.Recorder
	meters *meters

	mu     sync.Mutex
	bucket map[string]*rate.Limiter
}

func newApprover(mgr ctrl.Manager, c clock.PassiveClock, events event.Recorder, m *meters) *approver {
	return &approver{
		client: mgr.GetClient(), reader: mgr.GetAPIReader(), clock: c, events: events, meters: m,
		bucket: map[string]*rate.Limiter{},
	}
}

// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests/approval,verbs=update
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=signers,resourceNames=kubernetes.io/kube-apiserver-client,verbs=approve

// Reconcile decides on one request. It ignores a request that is already decided, by this hub or by somebody else.
func (a *approver) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := a.client.Get(ctx, req.NamespacedName, csr); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if decided(csr) || !relevant(csr) {
		return ctrl.Result{}, nil
	}
	if wait := a.wait(csr.Spec.Username); wait > 0 {
		ctrl.LoggerFrom(ctx).V(1).Info("Delayed certificate request", "name", csr.Name, "reason", "RateLimited", "after", wait)
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	cluster, ok := memberRequest(csr)
	if !ok {
		if taken, err := a.taken(ctx, csr); err != nil || !taken {
			return ctrl.Result{}, err
		}
	}
	k, err := a.facts(ctx, cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	v := decide(csr, cluster, k)
	if v.decision == decisionApprove {
		if err := a.bind(ctx, k, v); err != nil {
			if apierrors.IsConflict(err) {
				return ctrl.Result{RequeueAfter: time.Second}, nil
			}
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, a.answer(ctx, csr, k.cluster, v)
}

// taken reports whether a request that is not from a member uses the name of a member's request.
func (a *approver) taken(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) (bool, error) {
	cluster := namesake(csr)
	if cluster == "" {
		return false, nil
	}
	err := a.reader.Get(ctx, client.ObjectKey{Name: cluster}, &fleetv1alpha1.MemberCluster{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("get member cluster %s: %w", cluster, err)
	}
	return err == nil, nil
}

func decided(csr *certificatesv1.CertificateSigningRequest) bool {
	return len(csr.Status.Conditions) > 0 || len(csr.Status.Certificate) > 0
}

// wait returns how long a requester has to wait. It counts by user, not by the cluster in the request, so that no requester can use up
// another one's limit. All users that are not members share one limit.
func (a *approver) wait(user string) time.Duration {
	if !strings.HasPrefix(user, fleetv1alpha1.UserPrefix) && !strings.HasPrefix(user, "system:serviceaccount:"+requestPrefix) {
		user = ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	for name, l := range a.bucket { // Forget requesters whose bucket is full.
		if l.TokensAt(now) >= requestsBurst {
			delete(a.bucket, name)
		}
	}
	l := a.bucket[user]
	if l == nil {
		l = rate.NewLimiter(rate.Every(requestsEvery), requestsBurst)
		a.bucket[user] = l
	}
	if l.AllowN(now, 1) {
		return 0
	}
	return requestsEvery
}

// facts reads what a decision needs to know about the cluster of a request. It returns nothing for "".
func (a *approver) facts(ctx context.Context, cluster string) (requestFacts, error) {
	if cluster == "" {
		return requestFacts{}, nil
	}
	mc := &fleetv1alpha1.MemberCluster{}
	if err := a.reader.Get(ctx, client.ObjectKey{Name: cluster}, mc); err != nil {
		if apierrors.IsNotFound(err) {
			return requestFacts{}, nil
		}
		return requestFacts{}, fmt.Errorf("get member cluster %s: %w", cluster, err)
	}
	account := &corev1.ServiceAccount{}
	key := client.ObjectKey{Namespace: fleetv1alpha1.Namespace(cluster), Name: fleetv1alpha1.BootstrapAccount(cluster)}
	if err := a.reader.Get(ctx, key, account); err != nil {
		if !apierrors.IsNotFound(err) {
			return requestFacts{}, fmt.Errorf("get bootstrap account %s: %w", key, err)
		}
		account = nil
	}
	lease := &coordinationv1.Lease{}
	key = client.ObjectKey{Namespace: key.Namespace, Name: fleetv1alpha1.MemberLease}
	if err := a.reader.Get(ctx, key, lease); err != nil {
		if !apierrors.IsNotFound(err) {
			return requestFacts{}, fmt.Errorf("get Lease %s: %w", key, err)
		}
		lease = nil
	}
	others := &fleetv1alpha1.MemberClusterList{}
	if err := a.reader.List(ctx, others); err != nil {
		return requestFacts{}, fmt.Errorf("list member clusters: %w", err)
	}
	return requestFacts{cluster: mc, account: account, lease: lease, holder: func(uid string) string { return holder(others.Items, cluster, uid) }}, nil
}

// holder returns the name of a MemberCluster, other than cluster, that has joined with that UID, or "".
func holder(all []fleetv1alpha1.MemberCluster, cluster, uid string) string {
	for i := range all {
		if id := all[i].Spec.Identity; all[i].Name != cluster && id != nil && id.ClusterUID == uid {
			return all[i].Name
		}
	}
	return ""
}

// bind stores the identity of the cluster and marks the token as used, before a request is approved. Both writes carry the resource version
// that the decision was based on, so that only one of two concurrent requests wins.
func (a *approver) bind(ctx context.Context, k requestFacts, v outcome) error {
	locked := client.MergeFromWithOptimisticLock{}
	if k.cluster.Spec.Identity == nil {
		next := k.cluster.DeepCopy()
		next.Spec.Identity = &fleetv1alpha1.ClusterIdentity{ClusterUID: v.clusterUID}
		if err := a.client.Patch(ctx, next, client.MergeFromWithOptions(k.cluster, locked)); err != nil {
			return fmt.Errorf("set the identity of member cluster %s: %w", k.cluster.Name, err)
		}
	}
	if v.bootstrap && k.account.Annotations[annotationSpent] == "" {
		if k.lease == nil {
			return fmt.Errorf("mark the join token of member cluster %s as spent: its Lease does not exist yet", k.cluster.Name)
		}
		next := k.account.DeepCopy()
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, annotationSpent, k.lease.ResourceVersion)
		if err := a.client.Patch(ctx, next, client.MergeFromWithOptions(k.account, locked)); err != nil {
			return fmt.Errorf("mark the join token of member cluster %s as spent: %w", k.cluster.Name, err)
		}
	}
	return nil
}

// answer writes the decision into the request and records an event.
func (a *approver) answer(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, mc *fleetv1alpha1.MemberCluster, v outcome) error {
	c := certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue, Reason: v.reason, Message: v.message,
		LastUpdateTime: metav1.NewTime(a.clock.Now()),
	}
	if v.decision == decisionApprove {
		c.Type = certificatesv1.CertificateApproved
	}
	next := csr.DeepCopy()
	next.Status.Conditions = append(next.Status.Conditions, c)
	if err := a.client.SubResource("approval").Update(ctx, next); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("answer certificate request %s: %w", csr.Name, err))
	}
	a.meters.requests.WithLabelValues(string(v.decision), v.reason).Inc()
	ctrl.LoggerFrom(ctx).Info("Answered certificate request", "name", csr.Name, "kind", v.decision, "reason", v.reason)
	var regarding runtime.Object = csr
	if mc != nil {
		regarding = mc
	}
	if v.decision == decisionApprove {
		a.events.Record(regarding, requestApproved(v))
	} else {
		a.events.Record(regarding, requestDenied(csr.Spec.Username, v))
	}
	return nil
}
