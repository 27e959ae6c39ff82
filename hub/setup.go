package hub

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/capi"
	"github.com/flotilla-io/flotilla/hub/cluster"
	"github.com/flotilla-io/flotilla/hub/clusterprofile"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/hub/uniteddeployment"
	"github.com/flotilla-io/flotilla/hub/workloadspread"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
)

const (
	// contentKeySecret is the Secret in the hub's own namespace with the key that makes content names unguessable.
	contentKeySecret = "flotilla-content-key"
	contentKeyField  = "key"
	contentKeySize   = 32
)

// Options configures Setup. All fields are required unless a default is given.
type Options struct {
	// Namespace is the hub's own namespace. It holds the content key and the Secrets with kubeconfigs of push members.
	Namespace string
	// ClusterAPINamespaces are the namespaces in which members created by Cluster API, and their kubeconfigs, may be. They default to none.
	ClusterAPINamespaces []string
	// ClusterProfileNamespace is the namespace in which the clusters are published as ClusterProfiles. By default they are not published.
	ClusterProfileNamespace string
	// PropagationKinds are the resources whose objects Propagations may place. They default to none.
	PropagationKinds []schema.GroupResource
	// LocalMember is true if the hub's cluster also runs the member stack, which then reconciles objects without clusters, and serves
	// defaulting and conversion for their kinds.
	LocalMember bool
	// Gates are the feature gates.
	Gates *feature.Gates
	// Workers is how many objects of a kind are reconciled concurrently, by the name of the kind.
	Workers map[string]int
	// ExpectationTimeout is how long a cache may lack our own writes; 0 means 5 minutes.
	ExpectationTimeout time.Duration
	// RunAgent runs the member's agent for push members. It is implemented in member/agent.
	RunAgent func(context.Context, link.Link) error
	// ValidateCloneSet validates the CloneSet in a UnitedDeployment's template. It is implemented in member/workload/cloneset.
	ValidateCloneSet func(*appsv1beta1.CloneSetSpec, *field.Path) field.ErrorList
	// ValidateStatefulSet validates the apps.kruise.io StatefulSet in a UnitedDeployment's template. It is implemented in
	// member/workload/statefulset.
	ValidateStatefulSet func(*appsv1beta1.StatefulSetSpec, *field.Path) field.ErrorList
	// StatefulSetWarnings returns warnings about a valid template of such a StatefulSet. It is implemented in the same package.
	StatefulSetWarnings func(*appsv1beta1.StatefulSetSpec, *field.Path) admission.Warnings
	// CloneSetWebhook returns the webhook for CloneSets. It is implemented in member/workload/cloneset. If it is nil, there is no such webhook.
	CloneSetWebhook func(c client.Client, live client.Reader, keepTemplates bool) workloadspread.CloneSetWebhook
	// WorkloadSpreadRules returns the rules of members for WorkloadSpreads that may name clusters. It is implemented in
	// member/pod/workloadspread. If it is nil, these rules are not checked.
	WorkloadSpreadRules func(c client.Client, live client.Reader) admission.Validator[*appsv1beta1.WorkloadSpread]
	// ResourceDistributionRules are the rules of members for ResourceDistributions that may name clusters. They are implemented in
	// member/resource/resourcedistribution. If it is nil, these rules are not checked.
	ResourceDistributionRules admission.Validator[*appsv1beta1.ResourceDistribution]
	// Identity is the name of this process in Leases.
	Identity string
	// Version is the version of this program.
	Version string
	// Clock is the real clock, except in tests.
	Clock clock.WithTicker

	// self is the username of this hub on its apiserver. Setup determines it.
	self string
}

// Scheme returns the types that the hub works with.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), apiextensionsv1.AddToScheme(s), fleetv1alpha1.AddToScheme(s), capi.AddToScheme(s),
		Kinds().AddToScheme(s))
}

// Restrict limits a manager's cache to what the hub's roles allow. Secrets are not cached, and what the hub created for members is selected
// by label. managedFields are dropped, since no controller here reads them from a cache.
func Restrict(o ctrl.Options) ctrl.Options {
	only := cluster.CacheByObject()
	maps.Copy(only, workloadspread.CacheByObject())
	maps.Copy(only, uniteddeployment.CacheByObject())
	o.Cache = cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: only}
	o.Client.Cache = &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}
	return o
}

// Permissions that the manager itself needs, for its Lease, its events, its webhook certificate and the configurations that carry it.
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=flotilla-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=flotilla-system,resources=leases,resourceNames=flotilla-hub,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=flotilla-system,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",namespace=flotilla-system,resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",namespace=flotilla-system,resources=secrets,resourceNames=flotilla-content-key,verbs=get
// +kubebuilder:rbac:groups="",namespace=flotilla-system,resources=secrets,resourceNames=flotilla-hub-webhook,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,resourceNames=flotilla-hub,verbs=get;list;watch;patch

// Setup adds all controllers and webhooks of the hub to mgr, which must have been created with Scheme and Restrict. It reads from the
// apiserver, and creates the content key if there is none.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	key, err := contentKey(ctx, mgr.GetAPIReader(), mgr.GetClient(), o.Namespace)
	if err != nil {
		return err
	}
	if err := row.Setup(ctx, mgr, row.Options{Clock: o.Clock}); err != nil {
		return err
	}
	if o.ClusterProfileNamespace != "" {
		profiles := clusterprofile.Options{Namespace: o.ClusterProfileNamespace, Events: event.New(mgr.GetEventRecorder(link.HubManager))}
		if err := clusterprofile.Setup(mgr, profiles); err != nil {
			return err
		}
	}
	if o.self, err = whoAmI(ctx, mgr.GetClient()); err != nil {
		return err
	}
	placed := placement.NewHub(mgr, key, o.LocalMember, o.Clock)
	err = kinds(o, placed).Setup(ctx, mgr, setup.Options{
		Workers: o.Workers, ExpectationTimeout: o.ExpectationTimeout, Gates: o.Gates, Clock: o.Clock,
	})
	if err != nil {
		return err
	}
	return placed.Setup(mgr)
}

// whoAmI asks the apiserver for the username with which this hub writes. Every user may ask that.
func whoAmI(ctx context.Context, c client.Writer) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return "", fmt.Errorf("ask the apiserver for the hub's own user: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// contentKey returns the key that is used to name contents, and creates it on the first start of the first replica.
func contentKey(ctx context.Context, reader client.Reader, writer client.Writer, namespace string) ([]byte, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: contentKeySecret}}
	name := client.ObjectKeyFromObject(secret)
	err := reader.Get(ctx, name, secret)
	if apierrors.IsNotFound(err) {
		key := make([]byte, contentKeySize)
		if _, err := rand.Read(key); err != nil {
			return nil, fmt.Errorf("create content key: %w", err)
		}
		secret.Data = map[string][]byte{contentKeyField: key}
		if err = writer.Create(ctx, secret); apierrors.IsAlreadyExists(err) {
			err = reader.Get(ctx, name, secret)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read or create content key %s: %w", name, err)
	}
	if len(secret.Data[contentKeyField]) < contentKeySize {
		return nil, fmt.Errorf("content key %s: its field %s must have at least %d bytes; delete the Secret to have it created again",
			name, contentKeyField, contentKeySize)
	}
	return secret.Data[contentKeyField], nil
}
