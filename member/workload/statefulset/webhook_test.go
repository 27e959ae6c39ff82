package statefulset

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

type (
	spec    = appsv1beta1.StatefulSetSpec
	Rolling = appsv1beta1.StatefulSetRollingUpdateStrategy
)

// on returns gates that are all on.
func on() Gates { return Gates{StartOrdinal: true, ResizePVCs: true, DeletePVCs: true} }

// newTestWebhook returns a webhook with a fake apiserver that has these storage classes, and counts dry runs.
func newTestWebhook(t *testing.T, classes ...client.Object) (*Webhook, *int) {
	t.Helper()
	c, dryRuns := webhooktest.Apiserver(classes...)
	return &Webhook{Client: c, Live: c, Gates: on(), Off: workloadspec.Off{PreDownload: feature.PreDownloadForInPlaceUpdate}}, dryRuns
}

// requestContext returns the context of an admission request; old is nil for a create.
func requestContext(t *testing.T, old *appsv1beta1.StatefulSet) context.Context {
	t.Helper()
	return webhooktest.Requested(t, old)
}

// db returns a StatefulSet of three pods as Default leaves it, changed by each of the functions.
func db(changes ...func(*spec)) *appsv1beta1.StatefulSet {
	set := &appsv1beta1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "shop"}, Spec: spec{
		Replicas:    ptr.To[int32](3),
		Selector:    &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		ServiceName: "db",
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "db"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "db:1"}}},
		},
	}}
	setDefaults(&set.Spec)
	for _, change := range changes {
		change(&set.Spec)
	}
	return set
}

func rolling(change func(*Rolling)) func(*spec) {
	return func(s *spec) { change(s.UpdateStrategy.RollingUpdate) }
}

func policy(p appsv1beta1.PodUpdatePolicy) func(*spec) {
	return rolling(func(r *Rolling) { r.PodUpdatePolicy = p })
}

func gate(s *spec) {
	s.Template.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: keys.InPlaceUpdateReady}}
}

func image(name string) func(*spec) {
	return func(s *spec) { s.Template.Spec.Containers[0].Image = name }
}

func reserving(list ...any) func(*spec) {
	return func(s *spec) { s.ReserveOrdinals = testkit.Entries(list...) }
}

func parallel(s *spec) { s.PodManagementPolicy = appsv1.ParallelPodManagement }

// pvc returns a volumeClaimTemplate; an empty class means the default class.
func pvc(name, size, class string) corev1.PersistentVolumeClaim {
	c := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
	}}
	if class != "" {
		c.Spec.StorageClassName = &class
	}
	return c
}

func pvcs(list ...corev1.PersistentVolumeClaim) func(*spec) {
	return func(s *spec) { s.VolumeClaimTemplates = list }
}

func resizing(s *spec) {
	s.VolumeClaimUpdateStrategy.Type = appsv1beta1.StatefulSetClaimOnPodRollingUpdate
}

func TestDefault(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		in   appsv1beta1.StatefulSetUpdateStrategy
		want appsv1beta1.StatefulSetUpdateStrategy
	}{
		{
			"an empty strategy becomes RollingUpdate with ReCreate of one pod at a time",
			appsv1beta1.StatefulSetUpdateStrategy{},
			appsv1beta1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &Rolling{
				Partition: ptr.To[int32](0), MaxUnavailable: new(intstr.FromInt32(1)), MinReadySeconds: ptr.To[int32](0),
				PodUpdatePolicy: appsv1beta1.PodReCreate,
			}},
		},
		{
			"explicit values are kept",
			appsv1beta1.StatefulSetUpdateStrategy{RollingUpdate: &Rolling{
				Partition: ptr.To[int32](2), MaxUnavailable: new(intstr.FromString("20%")), PodUpdatePolicy: appsv1beta1.PodInPlaceOnly,
				MinReadySeconds: ptr.To[int32](9), Paused: true,
			}},
			appsv1beta1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &Rolling{
				Partition: ptr.To[int32](2), MaxUnavailable: new(intstr.FromString("20%")), PodUpdatePolicy: appsv1beta1.PodInPlaceOnly,
				MinReadySeconds: ptr.To[int32](9), Paused: true,
			}},
		},
		{
			"OnDelete gets no rolling update, which would be refused",
			appsv1beta1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			appsv1beta1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, _ := newTestWebhook(t)
			set := db(pvcs(pvc("data", "1Gi", "")), func(s *spec) {
				s.UpdateStrategy, s.Replicas, s.RevisionHistoryLimit, s.PodManagementPolicy = tt.in, nil, nil, ""
				s.VolumeClaimUpdateStrategy.Type, s.PersistentVolumeClaimRetentionPolicy = "", nil
			})
			require.NoError(t, w.Default(requestContext(t, nil), set))
			require.Empty(t, cmp.Diff(tt.want, set.Spec.UpdateStrategy))
			require.Equal(t, int32(1), *set.Spec.Replicas)
			require.Equal(t, int32(10), *set.Spec.RevisionHistoryLimit)
			require.Equal(t, appsv1.OrderedReadyPodManagement, set.Spec.PodManagementPolicy)
			require.Equal(t, appsv1beta1.StatefulSetClaimOnDelete, set.Spec.VolumeClaimUpdateStrategy.Type)
			require.Equal(t, &appsv1beta1.StatefulSetClaimRetentionPolicy{WhenDeleted: "Retain", WhenScaled: "Retain"},
				set.Spec.PersistentVolumeClaimRetentionPolicy)
			require.Equal(t, corev1.RestartPolicyAlways, set.Spec.Template.Spec.RestartPolicy)
			require.Equal(t, corev1.PersistentVolumeFilesystem, *set.Spec.VolumeClaimTemplates[0].Spec.VolumeMode)
		})
	}
}

func TestDefaultDryRunsATemplateOnlyWhenItChanged(t *testing.T) {
	t.Parallel()
	scaled := func(s *spec) { s.Replicas = ptr.To[int32](9) }
	tests := []struct {
		name    string
		old     *appsv1beta1.StatefulSet
		set     *appsv1beta1.StatefulSet
		keep    bool
		dryRuns int
	}{
		{"a create is dry-run", nil, db(), false, 1},
		{"a scale is not dry-run", db(), db(scaled), false, 0},
		{"a scale of a set that was stored without defaults is not dry-run", db(pvcs(pvc("data", "1Gi", ""))), db(pvcs(pvc("data", "1Gi", "")), scaled), false, 0},
		{"another volumeClaimTemplate is dry-run", db(pvcs(pvc("data", "1Gi", ""))), db(pvcs(pvc("data", "2Gi", ""))), false, 1},
		{"a new image is dry-run, as is the template that it replaces", db(), db(image("db:2")), false, 2},
		{"with TemplateNoDefaults, a create is not dry-run", nil, db(), true, 0},
		{"with TemplateNoDefaults, a new image is not dry-run, as validation does that", db(), db(image("db:2")), true, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, dryRuns := newTestWebhook(t)
			w.KeepTemplates = tt.keep
			require.NoError(t, w.Default(requestContext(t, tt.old), tt.set))
			require.Equal(t, tt.dryRuns, *dryRuns)
			if tt.old != nil || tt.keep {
				require.Empty(t, tt.set.Spec.Template.Spec.RestartPolicy, "unchanged fields stay as they are")
			}
		})
	}
}

func TestDefaultKeepsTheFormOfAnOrphanedTemplate(t *testing.T) {
	t.Parallel()
	former := db()
	former.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways // a default
	former.Spec.Template.Spec.Containers[0].ImagePullPolicy = corev1.PullIfNotPresent
	orphan, err := revision.New(revision.Spec{Owner: former, Kind: Kind(), Template: &former.Spec.Template, Labels: former.Spec.Template.Labels})
	require.NoError(t, err)
	orphan.Namespace, orphan.OwnerReferences = testkit.Namespace, nil
	w, _ := newTestWebhook(t, orphan)
	set := db()
	require.NoError(t, w.Default(requestContext(t, nil), set))
	require.Empty(t, cmp.Diff(former.Spec.Template, set.Spec.Template))

	owned := orphan.DeepCopy()
	owned.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(former, Kind())}
	w, _ = newTestWebhook(t, owned)
	set = db()
	require.NoError(t, w.Default(requestContext(t, nil), set))
	require.Equal(t, corev1.PullAlways, set.Spec.Template.Spec.Containers[0].ImagePullPolicy, "the revision belongs to another set")
}

func TestDefaultRefusesWhatTheSchemaWouldRefuseWithLessToSay(t *testing.T) {
	t.Parallel()
	w, _ := newTestWebhook(t)
	err := w.Default(requestContext(t, nil), db(reserving(1, "7")))
	require.True(t, apierrors.IsInvalid(err))
	require.ErrorContains(t, err, `spec.reserveOrdinals[1]: Invalid value: "7": must be a number such as 3, without quotes`)
	require.NoError(t, w.Default(requestContext(t, db(reserving("7"))), db(reserving("7"), image("db:2"))), "stored values are not validated again")
	require.ErrorContains(t, w.Default(requestContext(t, nil), db(image("bad"))), "spec.template.spec.containers[0].image")
}

func TestValidate(t *testing.T) {
	t.Parallel()
	named := func(name string, changes ...func(*spec)) *appsv1beta1.StatefulSet {
		set := db(changes...)
		set.Name = name
		return set
	}
	scaled := func(n int32) func(*spec) { return func(s *spec) { s.Replicas = &n } }
	from := func(n int32) func(*spec) {
		return func(s *spec) { s.Ordinals = &appsv1.StatefulSetOrdinals{Start: n} }
	}
	weighing := func(s metav1.LabelSelector) func(*spec) {
		return rolling(func(r *Rolling) {
			r.UnorderedUpdate = &appsv1beta1.StatefulSetUnorderedUpdate{PriorityStrategy: &pods.UpdatePriorityStrategy{
				WeightPriority: []pods.UpdatePriorityWeightTerm{{Weight: 1, MatchSelector: s}},
			}}
		})
	}
	inPlace := func(s pods.InPlaceUpdateStrategy) func(*spec) {
		return rolling(func(r *Rolling) { r.InPlaceUpdateStrategy = &s })
	}
	const at = "spec.updateStrategy.rollingUpdate."
	tests := []struct {
		name string
		set  *appsv1beta1.StatefulSet
		want string // empty: accepted
	}{
		{"a plain set is fine", db(), ""},
		{
			"a claim template without accessModes is refused", db(pvcs(pvc("data", "1Gi", "")), func(s *spec) { s.VolumeClaimTemplates[0].Spec.AccessModes = nil }),
			"spec.volumeClaimTemplates[0].spec.accessModes: Required value",
		},
		{"OnDelete is fine", db(func(s *spec) {
			s.UpdateStrategy = appsv1beta1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
		}), ""},
		{"reserved numbers and ranges are fine", db(reserving(0, "3-5", 9)), ""},
		{"no replicas from the largest ordinal on are fine", db(scaled(0), from(math.MaxInt32)), ""},
		{"one replica with the largest ordinal is fine", db(scaled(1), from(math.MaxInt32)), ""},
		{"updates in place with the gate are fine", db(policy(appsv1beta1.PodInPlaceIfPossible), gate), ""},
		{"a grace period is fine", db(inPlace(pods.InPlaceUpdateStrategy{GracePeriodSeconds: 5})), ""},
		{"hooks are fine", db(func(s *spec) {
			s.Lifecycle = &pods.Lifecycle{InPlaceUpdate: &pods.LifecycleHook{FinalizersHandler: []string{"example.com/drain"}}}
		}), ""},
		{"priorities by weight are fine", db(parallel, weighing(metav1.LabelSelector{MatchLabels: map[string]string{"tier": "test"}})), ""},

		{"a name with a dot is refused, as it is a host name", named("my.db"), `metadata.name: Invalid value: "my.db": it is part of the pods' host names`},
		{
			"a name that leaves no room for the ordinal is refused", named(strings.Repeat("x", 62)),
			"characters, but at most 63 are allowed: use a shorter name",
		},
		{"the longest ordinal counts for the length of the name", named(strings.Repeat("x", 61), scaled(11)), "-10 would have 64 characters, but at most 63 are allowed"},
		{"reserved ordinals before the last count for the length of the name", named(strings.Repeat("x", 61), scaled(1), reserving("0-9")), "-10 would have 64 characters"},
		{"the same name with shorter ordinals is fine", named(strings.Repeat("x", 61), scaled(10)), ""},
		{"a reversed range is refused", db(reserving("7-3")), `spec.reserveOrdinals[0]: Invalid value: "7-3": the range runs backwards: write "3-7"`},
		{"a negative ordinal is refused", db(reserving(2, -4)), `spec.reserveOrdinals[1]: Invalid value: "-4": an ordinal must be 0 or more`},
		{"a range beyond the largest ordinal is refused", db(reserving("1-2147483648")), `Invalid value: "1-2147483648": ordinals end at 2147483647`},
		{
			"ordinals that overflow are refused", db(from(math.MaxInt32)),
			"spec.reserveOrdinals: Invalid value: 2147483649: the last pod would have this ordinal, but ordinals end at 2147483647: lower replicas",
		},
		{"ordinals that overflow because of reserved ones are refused", db(reserving("0-2147483646")), "spec.reserveOrdinals: Invalid value: 2147483649"},

		{
			"a Service name that is not a DNS label is refused, as no pod could be created", db(func(s *spec) { s.ServiceName = "my.db" }),
			`spec.serviceName: Invalid value: "my.db": it is the subdomain of the pods, and the name of a Service: `,
		},
		{"a set without a Service is fine", db(func(s *spec) { s.ServiceName = "" }), ""},
		{"an empty selector is refused", db(func(s *spec) { s.Selector.MatchLabels = nil }), "spec.selector: Required value"},
		{
			"a selector that doesn't match the template is refused", db(func(s *spec) { s.Selector.MatchLabels["app"] = "web" }),
			`spec.template.metadata.labels: Invalid value: {"app":"db"}: the selector "app=web" doesn't match these labels`,
		},
		{
			"another restart policy is refused", db(func(s *spec) { s.Template.Spec.RestartPolicy = corev1.RestartPolicyNever }),
			`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`,
		},
		{
			"an active deadline is refused", db(func(s *spec) { s.Template.Spec.ActiveDeadlineSeconds = ptr.To[int64](5) }),
			"spec.template.spec.activeDeadlineSeconds: Forbidden: pods of a StatefulSet run indefinitely: leave it out",
		},
		{"a template that the apiserver refuses is refused", db(image("bad")), "spec.template.spec.containers[0].image: Invalid value"},
		{
			"updates in place without the gate are refused", db(policy(appsv1beta1.PodInPlaceIfPossible)),
			"spec.template.spec.readinessGates: Required value: podUpdatePolicy InPlaceIfPossible takes pods out of service with a readiness gate: " +
				"add {conditionType: InPlaceUpdateReady}",
		},
		{"InPlaceOnly without the gate is refused", db(policy(appsv1beta1.PodInPlaceOnly)), "spec.template.spec.readinessGates: Required value"},
		{
			"a weight for all pods is refused", db(parallel, weighing(metav1.LabelSelector{})),
			at + `unorderedUpdate.priorityStrategy.weightPriority[0].matchSelector: Invalid value: "{}"`,
		},
		{
			"a PVC template without a name is refused", db(pvcs(pvc("", "1Gi", ""))),
			`spec.volumeClaimTemplates[0].metadata.name: Invalid value: ""`,
		},
		{
			"two PVC templates with the same name are refused", db(pvcs(pvc("data", "1Gi", ""), pvc("data", "2Gi", ""))),
			`spec.volumeClaimTemplates[1].metadata.name: Invalid value: "data": is listed already`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, _ := newTestWebhook(t)
			check := func(err error) {
				if tt.want == "" {
					require.NoError(t, err)
					return
				}
				require.True(t, apierrors.IsInvalid(err), "%v", err)
				require.ErrorContains(t, err, tt.want)
			}
			_, err := w.ValidateCreate(requestContext(t, nil), tt.set)
			check(err)
			old := db(func(s *spec) { s.RevisionHistoryLimit = ptr.To[int32](3) })
			_, err = w.ValidateUpdate(requestContext(t, old), old, tt.set)
			check(err)
		})
	}
}

func TestAFirstOrdinalWithoutItsGateIsRefused(t *testing.T) {
	t.Parallel()
	w, _ := newTestWebhook(t)
	w.Gates = Gates{}
	from := func(n int32) *appsv1beta1.StatefulSet {
		return db(func(s *spec) { s.Ordinals = &appsv1.StatefulSetOrdinals{Start: n} })
	}
	const why = "spec.ordinals.start: Invalid value: 5: feature gate StatefulSetStartOrdinal is off"
	_, err := w.ValidateCreate(requestContext(t, nil), from(5))
	require.ErrorContains(t, err, why)
	_, err = w.ValidateUpdate(requestContext(t, db()), db(), from(5))
	require.ErrorContains(t, err, why)
	_, err = w.ValidateCreate(requestContext(t, nil), from(0))
	require.NoError(t, err)

	// A set that was stored before is kept, numbered from 0.
	scaled := from(math.MaxInt32)
	scaled.Spec.Replicas = new(int32(7))
	warnings, err := w.ValidateUpdate(requestContext(t, from(math.MaxInt32)), from(math.MaxInt32), scaled)
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "pods would be numbered from 0")
}

func TestValidateUpdate(t *testing.T) {
	t.Parallel()
	only := func(changes ...func(*spec)) *appsv1beta1.StatefulSet {
		return db(append([]func(*spec){policy(appsv1beta1.PodInPlaceOnly), gate}, changes...)...)
	}
	command := func(s *spec) { s.Template.Spec.Containers[0].Command = []string{"serve"} }
	data := func(size, class string, more ...func(*spec)) *appsv1beta1.StatefulSet {
		return db(append([]func(*spec){resizing, pvcs(pvc("data", size, class))}, more...)...)
	}
	blocks := func(s *spec) { s.VolumeClaimTemplates[0].Spec.VolumeMode = new(corev1.PersistentVolumeBlock) }
	completed := func(s *spec) {
		s.VolumeClaimTemplates[0].Spec.VolumeMode = new(corev1.PersistentVolumeFilesystem)
	}
	limited := func(s *spec) {
		s.VolumeClaimTemplates[0].Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("9Gi")}
	}
	const size = "spec.volumeClaimTemplates[0].spec.resources.requests[storage]: "
	tests := []struct {
		name     string
		old, set *appsv1beta1.StatefulSet
		want     string
		warned   string
	}{
		{name: "with InPlaceOnly, a new image is fine", old: only(), set: only(image("db:2"))},
		{
			name: "with InPlaceOnly, another volume is refused", old: only(), set: only(pvcs(pvc("data", "1Gi", ""))),
			want: "spec.volumeClaimTemplates: Forbidden: podUpdatePolicy InPlaceOnly can't make this change (volumes of PVCs were [], now [data])",
		},
		{
			name: "with InPlaceOnly, another size is fine", old: only(pvcs(pvc("data", "1Gi", ""))), set: only(pvcs(pvc("data", "2Gi", ""))),
		},
		{
			name: "with InPlaceOnly, another change is refused", old: only(), set: only(command),
			want: "spec.template: Forbidden: podUpdatePolicy InPlaceOnly can't make this change (container app: command changed)",
		},
		{
			name: "a stored invalid value may stay, with a warning", old: db(reserving("7-3")), set: db(reserving("7-3"), image("db:2")),
			warned: "the range runs backwards",
		},
		{name: "a stored invalid value may not be replaced by another", old: db(reserving("7-3")), set: db(reserving("8-3")), want: "the range runs backwards"},
		{name: "with OnDelete, any change of PVC templates is fine", old: db(pvcs(pvc("data", "2Gi", "slow"))), set: db(pvcs(pvc("logs", "1Gi", "")))},
		{name: "a larger size is fine", old: data("1Gi", "fast"), set: data("2Gi", "fast")},
		{name: "a larger size of a template that was stored without defaults is fine", old: data("1Gi", "fast"), set: data("2Gi", "fast", completed)},
		{name: "a new limit is fine", old: data("1Gi", "fast"), set: data("1Gi", "fast", limited)},
		{name: "a larger size is fine in a class that does not exist", old: data("1Gi", "gone"), set: data("2Gi", "gone")},
		{
			name: "a smaller size causes a warning", old: data("2Gi", "fast"), set: data("1Gi", "fast"),
			warned: size + "PVCs can't shrink: PVCs of 2Gi and more keep their size",
		},
		{
			name: "a storage class that doesn't allow resizing is refused", old: data("1Gi", "slow"), set: data("2Gi", "slow"),
			want: size + `Invalid value: "2Gi": storage class slow doesn't allow resizing: set its allowVolumeExpansion, or use volumeClaimUpdateStrategy.type OnDelete`,
		},
		{
			name: "without a class the newest default class counts", old: data("1Gi", ""), set: data("2Gi", ""),
			want: "storage class newest doesn't allow resizing",
		},
		{
			name: "#2343: a PVC template may not be added", old: data("1Gi", "fast"),
			set: db(resizing, pvcs(pvc("data", "1Gi", "fast"), pvc("logs", "1Gi", "fast"))),
			want: "spec.volumeClaimTemplates: Forbidden: volumeClaimTemplates can't be added, removed or renamed ([data], now [data logs]) " +
				"with volumeClaimUpdateStrategy.type OnPodRollingUpdate: use OnDelete for this change",
		},
		{
			name: "a PVC template may not be renamed", old: data("1Gi", "fast"), set: db(resizing, pvcs(pvc("logs", "1Gi", "fast"))),
			want: "can't be added, removed or renamed ([data], now [logs])",
		},
		{
			name: "a PVC template may not get another class", old: data("1Gi", "fast"), set: data("1Gi", "slow"),
			want: "spec.volumeClaimTemplates[0]: Forbidden: only the size of PVCs can be changed",
		},
		{
			name: "other fields of a PVC template may not change", old: data("1Gi", "fast"), set: data("2Gi", "fast", blocks),
			want: "spec.volumeClaimTemplates[0]: Forbidden: only the size of PVCs can be changed",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			class := func(name string, grows *bool, created int64, isDefault string) *storagev1.StorageClass {
				return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{
					Name: name, CreationTimestamp: metav1.Unix(created, 0), Annotations: map[string]string{defaultClass: isDefault},
				}, AllowVolumeExpansion: grows}
			}
			w, _ := newTestWebhook(t, class("fast", new(true), 9, "false"), class("slow", nil, 9, ""),
				class("former", new(true), 1, "true"), class("newest", new(false), 5, "true"), class("older", new(true), 3, "true"))
			warnings, err := w.ValidateUpdate(requestContext(t, tt.old), tt.old, tt.set)
			if tt.want != "" {
				require.True(t, apierrors.IsInvalid(err), "%v", err)
				require.ErrorContains(t, err, tt.want)
				return
			}
			require.NoError(t, err)
			if tt.warned == "" {
				require.Empty(t, warnings)
			} else {
				require.Contains(t, strings.Join(warnings, "\n"), tt.warned)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	partition := func(n int32) func(*spec) { return rolling(func(r *Rolling) { r.Partition = &n }) }
	from := func(s *spec) { s.Ordinals = &appsv1.StatefulSetOrdinals{Start: 3} }
	removing := func(s *spec) { s.PersistentVolumeClaimRetentionPolicy.WhenScaled = "Delete" }
	annotated := db()
	annotated.Annotations = map[string]string{keys.ImagePreDownloadParallelism: "2"}
	tests := []struct {
		name  string
		set   *appsv1beta1.StatefulSet
		gates Gates
		want  string // empty: none
	}{
		{"no warning about a plain set", db(), Gates{}, ""},
		{
			"a pre-download", db(rolling(func(r *Rolling) {
				r.InPlaceUpdateStrategy = &pods.InPlaceUpdateStrategy{ImagePreDownloadTimeoutSeconds: ptr.To[int32](1)}
			})), on(),
			"spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds " +
				"(in v1alpha1 annotation apps.kruise.io/image-predownload-timeout-seconds): no image will be pulled before an update because feature gate PreDownloadImageForInPlaceUpdate is off",
		},
		{
			"a pre-download annotation", annotated, on(),
			"metadata.annotations[apps.kruise.io/image-predownload-parallelism]: no image will be pulled before an update because feature gate PreDownloadImageForInPlaceUpdate is off",
		},
		{"a partition of all pods holds an update on purpose", db(partition(3)), on(), ""},
		{
			"a partition beyond the replicas may be a mistake", db(partition(4)), on(),
			"spec.updateStrategy.rollingUpdate.partition: 4 is greater than replicas (3): no pod will be updated until it is lower",
		},
		{
			"ordinals that overlap", db(reserving("2-5", 4)), on(),
			"spec.reserveOrdinals[0] (2-5) and spec.reserveOrdinals[1] (4) reserve the same ordinals: list them once",
		},
		{
			"a resize without its gate", db(resizing),
			Gates{},
			"spec.volumeClaimUpdateStrategy.type has no effect while feature gate StatefulSetAutoResizePVCGate is off: PVCs are not resized",
		},
		{
			"a deletion of PVCs without its gate", db(removing),
			Gates{},
			"spec.persistentVolumeClaimRetentionPolicy has no effect while feature gate StatefulSetAutoDeletePVC is off: PVCs are kept",
		},
		{"with their gates there is no warning", db(from, resizing, removing), on(), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, _ := newTestWebhook(t)
			w.Gates = tt.gates
			warnings, err := w.ValidateCreate(requestContext(t, nil), tt.set)
			require.NoError(t, err)
			if tt.want == "" {
				require.Empty(t, warnings)
				return
			}
			require.Equal(t, admission.Warnings{tt.want}, warnings)
			later := tt.set.DeepCopy()
			later.Spec.RevisionHistoryLimit = ptr.To[int32](2)
			warnings, err = w.ValidateUpdate(requestContext(t, tt.set), tt.set, later)
			require.NoError(t, err)
			require.Empty(t, warnings, "an update does not repeat the warning")
		})
	}
}

func TestAnnotationsAreWarnedOfInAnUpdateOfNothingElse(t *testing.T) {
	t.Parallel()
	w, _ := newTestWebhook(t)
	set := db()
	set.Annotations = map[string]string{keys.ImagePreDownloadParallelism: "2"}
	warnings, err := w.ValidateUpdate(requestContext(t, db()), db(), set)
	require.NoError(t, err)
	require.Len(t, warnings, 1)
}

func TestWarningsOfATemplateOfAnotherObject(t *testing.T) {
	t.Parallel()
	set := db(reserving("2-4", 3), func(s *spec) {
		s.VolumeClaimUpdateStrategy.Type = appsv1beta1.StatefulSetClaimOnPodRollingUpdate
	})
	path := field.NewPath("spec", "template", "advancedStatefulSetTemplate", "spec")
	got := Gates{}.Warnings(&set.Spec, path)
	require.Len(t, got, 2)
	require.Contains(t, got[0], path.String()+".reserveOrdinals[1] (3)")
	require.Contains(t, got[1], path.String()+".volumeClaimUpdateStrategy.type has no effect while feature gate")
	require.Len(t, Gates{ResizePVCs: true}.Warnings(&set.Spec, path), 1)
}

func TestValidateSpecChecksATemplateOfAnotherObject(t *testing.T) {
	t.Parallel()
	path := field.NewPath("spec", "template", "advancedStatefulSetTemplate", "spec")
	require.Empty(t, ValidateSpec(&db(func(s *spec) { s.Selector = nil }).Spec, path), "the selector is the other object's")
	faults := ValidateSpec(&db(reserving("7-3"), policy(appsv1beta1.PodInPlaceOnly)).Spec, path)
	require.Len(t, faults, 2)
	require.ErrorContains(t, faults[0], path.String()+".reserveOrdinals[0]")
	require.ErrorContains(t, faults[1], path.String()+".template.spec.readinessGates")
}

func TestPVCTemplatesMayChangeWhereTheirResizeIsOff(t *testing.T) {
	t.Parallel()
	w, _ := newTestWebhook(t)
	w.Gates = Gates{}
	old, set := db(resizing, pvcs(pvc("data", "2Gi", ""))), db(resizing, pvcs(pvc("logs", "1Gi", "")))
	_, err := w.ValidateUpdate(requestContext(t, old), old, set)
	require.NoError(t, err, "the type has no effect without its gate")
}

func TestAnUpdateWithoutSpecChangesIsNotValidated(t *testing.T) {
	t.Parallel()
	w, dryRuns := newTestWebhook(t)
	wrong := db(reserving("7-3"))
	warnings, err := w.ValidateUpdate(requestContext(t, wrong), wrong, wrong.DeepCopy())
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Zero(t, *dryRuns)
	_, err = w.ValidateDelete(t.Context(), wrong)
	require.NoError(t, err)
}
