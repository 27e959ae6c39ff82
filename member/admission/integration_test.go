//go:build integration

package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

// TestMain lets the package's tests share a cluster.
func TestMain(m *testing.M) { testenv.Main(m) }

// recording is a judge that refuses requests for pods with the label refuse=yes, and records the requests.
type recording struct {
	mu    sync.Mutex
	asked []string
}

// Check implements podwebhook.Judge.
func (j *recording) Check(_ context.Context, r podwebhook.Request) (*podwebhook.Refusal, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	line := fmt.Sprintf("%s %s/%s by %s", r.Operation, r.Old.Namespace, r.Old.Name, r.User.Username)
	if r.DryRun {
		line += " as a dry run"
	}
	j.asked = append(j.asked, line)
	if r.Old.Labels["refuse"] == "yes" {
		return &podwebhook.Refusal{Message: "budget web allows none", Cause: "The budget web needs 1 pod and has 1", RetryAfter: 10 * time.Second}, nil
	}
	return nil, nil
}

// Forecast implements podwebhook.Judge.
func (j *recording) Forecast(_ context.Context, r []podwebhook.Request) ([]*podwebhook.Refusal, error) {
	return make([]*podwebhook.Refusal, len(r)), nil
}

// of returns the recorded requests for a pod.
func (j *recording) of(namespace, name string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []string
	for _, line := range j.asked {
		operation, rest, _ := strings.Cut(line, " ")
		if pod, by, _ := strings.Cut(rest, " by "); pod == namespace+"/"+name {
			if strings.HasSuffix(by, " as a dry run") {
				operation += " as a dry run"
			}
			out = append(out, operation)
		}
	}
	return out
}

// site is a namespace with pods in a cluster whose manager guards the pods of namespaces that have a PodDisruptionBudget, which stands for
// any guarding kind.
type site struct {
	*testenv.Env

	namespace, configuration string
	judge                    *recording
	// clock controls when entries are written back.
	clock *clocktesting.FakePassiveClock
}

func start(t *testing.T) *site {
	t.Helper()
	kind := policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget")
	s := &site{Env: testenv.Start(t, testenv.Config{}), judge: &recording{}, clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0))}
	s.namespace = s.Namespace(t)
	prefix, _, _ := strings.Cut(s.namespace, "-")
	s.configuration = "validate-poddisruptionbudget-" + prefix
	s.Run(t, "guard-under-test", kind, func(mgr ctrl.Manager) {
		guards := podwebhook.Guards{{Guard: podwebhook.Guard{
			Feature: "Budget", Gates: allOperations(), Object: &policyv1.PodDisruptionBudget{}, List: &policyv1.PodDisruptionBudgetList{},
		}, Judge: s.judge}}
		entries := &Entries{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Configuration: s.configuration, Guards: guards, Namespace: "flotilla-system", Clock: s.clock,
		}
		require.NoError(t, entries.Setup(t.Context(), mgr))
		require.NoError(t, admit.Handle(mgr, GuardPath, &Guard{
			Live: mgr.GetAPIReader(), Guards: guards, Decoder: admission.NewDecoder(mgr.GetScheme()), Clock: clock.RealClock{},
		}))
		allow := admission.HandlerFunc(func(context.Context, admission.Request) admission.Response { return admission.Allowed("") })
		require.NoError(t, admit.Handle(mgr, admit.MutatePath(kind), allow))
		require.NoError(t, admit.Handle(mgr, admit.ValidatePath(kind), allow))
	})
	return s
}

// guard creates the object that causes requests to be sent, and waits until they are.
func (s *site) guard(t *testing.T) *policyv1.PodDisruptionBudget {
	t.Helper()
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}}
	require.NoError(t, s.Create(t.Context(), pdb))
	require.Eventually(t, func() bool { return slices.Contains(s.sent(t), s.namespace) }, testenv.Long, testenv.Poll)
	probe := s.pod(t, "probe", nil)
	require.Eventually(t, func() bool { // The apiserver applies the entry a moment later.
		require.NoError(t, s.Delete(t.Context(), probe, client.DryRunAll))
		return len(s.judge.of(s.namespace, "probe")) > 0
	}, testenv.Long, testenv.Poll)
	return pdb
}

// sent returns the namespaces in the entry.
func (s *site) sent(t *testing.T) []string {
	t.Helper()
	var c admissionv1.ValidatingWebhookConfiguration
	require.NoError(t, s.Get(t.Context(), client.ObjectKey{Name: s.configuration}, &c))
	for _, w := range c.Webhooks {
		if w.Name == guardFail {
			return w.NamespaceSelector.MatchExpressions[0].Values
		}
	}
	return nil
}

// pod creates a pod without a node, so that nothing but the test changes it.
func (s *site) pod(t *testing.T, name string, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			SchedulerName: "none",
			Containers: []corev1.Container{{Name: "app", Image: "app:1", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
			}}},
		},
	}
	if change != nil {
		change(p)
	}
	require.NoError(t, s.Create(t.Context(), p))
	return p
}

// cached waits until the apiserver's own cache has the current pod. An apiserver admits a deletion with the pod in its cache, and once more
// with the newer pod if the write conflicts.
func (s *site) cached(t *testing.T, p *corev1.Pod) {
	t.Helper()
	fromCache := &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: "0"}}
	require.Eventually(t, func() bool {
		var has corev1.Pod
		return s.Get(t.Context(), client.ObjectKeyFromObject(p), &has, fromCache) == nil && has.ResourceVersion == p.ResourceVersion
	}, testenv.Long, testenv.Poll)
}

func refuse(p *corev1.Pod) { p.Labels["refuse"] = "yes" }

// post sends a raw request, without client-go's handling of the response, which waits and retries after 429.
func (s *site) post(t *testing.T, path string, body any) (*metav1.Status, http.Header) {
	t.Helper()
	data, err := json.Marshal(body)
	require.NoError(t, err)
	c, err := rest.HTTPClientFor(s.REST())
	require.NoError(t, err)
	base, _, err := rest.DefaultServerUrlFor(s.REST())
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base.JoinPath(path).String(), bytes.NewReader(data))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	status := &metav1.Status{}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(status))
	require.EqualValues(t, resp.StatusCode, status.Code)
	return status, resp.Header
}

func (s *site) evict(t *testing.T, name string) (*metav1.Status, http.Header) {
	t.Helper()
	return s.post(t, "/api/v1/namespaces/"+s.namespace+"/pods/"+name+"/eviction", &policyv1.Eviction{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
	})
}

func TestIntegrationGuard(t *testing.T) {
	t.Parallel()
	s := start(t)
	require.Empty(t, s.sent(t))
	early := s.pod(t, "early", refuse)
	require.NoError(t, s.Delete(t.Context(), early, client.DryRunAll), "without an object nothing is sent")
	require.Empty(t, s.judge.of(s.namespace, "early"))
	pdb := s.guard(t)

	t.Run("a refused eviction is answered like by a PodDisruptionBudget", func(t *testing.T) {
		s.pod(t, "evicted", refuse)
		status, header := s.evict(t, "evicted")
		require.EqualValues(t, http.StatusTooManyRequests, status.Code)
		require.Equal(t, metav1.StatusReasonTooManyRequests, status.Reason)
		require.Equal(t, `admission webhook "vpod.kb.io" denied the request: budget web allows none`, status.Message)
		require.EqualValues(t, 10, status.Details.RetryAfterSeconds)
		require.Equal(t, "10", header.Get("Retry-After"))
		require.Equal(t, []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "The budget web needs 1 pod and has 1"}}, status.Details.Causes)
		require.True(t, apierrors.IsTooManyRequests(&apierrors.StatusError{ErrStatus: *status}), "kubectl drain keeps retrying")
		require.NoError(t, s.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "evicted"}, &corev1.Pod{}))
	})
	t.Run("an allowed eviction proceeds", func(t *testing.T) {
		s.pod(t, "leaves", nil)
		status, _ := s.evict(t, "leaves")
		require.EqualValues(t, http.StatusCreated, status.Code)
		require.Equal(t, []string{"EVICT"}, s.judge.of(s.namespace, "leaves"))
	})
	t.Run("a dry run may be set in the delete options alone, and in the old API version", func(t *testing.T) {
		s.pod(t, "stays", nil)
		for _, version := range []string{"policy/v1", "policy/v1beta1"} {
			status, _ := s.post(t, "/api/v1/namespaces/"+s.namespace+"/pods/stays/eviction", &policyv1.Eviction{
				TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "Eviction"}, ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "stays"},
				DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
			})
			require.EqualValues(t, http.StatusCreated, status.Code, status.Message)
		}
		require.Equal(t, []string{"EVICT as a dry run", "EVICT as a dry run"}, s.judge.of(s.namespace, "stays"))
		require.NoError(t, s.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "stays"}, &corev1.Pod{}))
	})
	t.Run("other requests are answered 403 with the same cause", func(t *testing.T) {
		p := s.pod(t, "kept", func(p *corev1.Pod) { p.Labels["refuse"], p.Labels["kept"] = "yes", "yes" })
		marked, image, plain := p.DeepCopy(), p.DeepCopy(), p.DeepCopy()
		marked.Labels["unavailable-pod.kruise.io/test"] = ""
		image.Spec.Containers[0].Image = "app:2"
		larger := []byte(`{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"200m"}}}]}}`)
		for _, err := range []error{
			s.Delete(t.Context(), p), s.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(s.namespace), client.MatchingLabels{"kept": "yes"}),
			s.Patch(t.Context(), marked, client.MergeFrom(p)), s.Patch(t.Context(), image, client.MergeFrom(p)),
			s.SubResource("resize").Patch(t.Context(), p.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, larger)),
		} {
			require.True(t, apierrors.IsForbidden(err), "%v", err)
			require.True(t, apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause))
		}
		plain.Labels["a"], plain.Annotations = "b", map[string]string{"a": "b"}
		require.NoError(t, s.Patch(t.Context(), plain, client.MergeFrom(p)))
		plain.Status.Phase = corev1.PodRunning
		require.NoError(t, s.Status().Update(t.Context(), plain))
		s.cached(t, plain)
		require.True(t, apierrors.IsForbidden(s.Delete(t.Context(), p, client.DryRunAll)))
		require.Equal(t, []string{"DELETE", "DELETE", "UPDATE", "UPDATE", "RESIZE", "DELETE as a dry run"}, s.judge.of(s.namespace, "kept"))
	})
	t.Run("requests for terminating, ended and static pods are not sent", func(t *testing.T) {
		going := s.pod(t, "going", func(p *corev1.Pod) { p.Finalizers = []string{"example.com/wait"} })
		require.NoError(t, s.Delete(t.Context(), going))
		require.NoError(t, s.Get(t.Context(), client.ObjectKeyFromObject(going), going))
		s.cached(t, going)
		require.NoError(t, s.Delete(t.Context(), going, client.GracePeriodSeconds(0)))
		require.NoError(t, s.Get(t.Context(), client.ObjectKeyFromObject(going), going))
		next := going.DeepCopy()
		next.Labels["refuse"], next.Spec.Containers[0].Image = "yes", "app:2"
		require.NoError(t, s.Patch(t.Context(), next, client.MergeFrom(going)))
		going = next.DeepCopy()
		next.Finalizers = nil
		require.NoError(t, s.Patch(t.Context(), next, client.MergeFrom(going)))
		require.Equal(t, []string{"DELETE"}, s.judge.of(s.namespace, "going"))
		ended := s.pod(t, "ended", refuse)
		ended.Status.Phase = corev1.PodSucceeded
		require.NoError(t, s.Status().Update(t.Context(), ended))
		s.cached(t, ended)
		require.NoError(t, s.Delete(t.Context(), ended))
		require.Empty(t, s.judge.of(s.namespace, "ended"))
		static := s.pod(t, "static", func(p *corev1.Pod) {
			refuse(p)
			p.Annotations, p.Spec.NodeName = map[string]string{corev1.MirrorPodAnnotationKey: "x"}, "elsewhere"
		})
		require.NoError(t, s.Delete(t.Context(), static, client.GracePeriodSeconds(0)))
		require.Empty(t, s.judge.of(s.namespace, "static"))
	})
	require.NoError(t, s.Delete(t.Context(), pdb))
	require.Eventually(t, func() bool { return len(s.sent(t)) == 0 }, testenv.Long, testenv.Poll)
	require.Eventually(t, func() bool { // The apiserver applies it a moment later.
		return s.Delete(t.Context(), early, client.DryRunAll) == nil
	}, testenv.Long, testenv.Poll, "without an object nothing is sent any more")
	now := len(s.judge.of(s.namespace, "early"))
	require.NoError(t, s.Delete(t.Context(), early))
	require.Len(t, s.judge.of(s.namespace, "early"), now)
}

// TestIntegrationOtherWritersOfTheConfiguration lets a second writer change the entry. Exclusions that it adds stay. What it removes is
// written back, at once and then less and less often.
func TestIntegrationOtherWritersOfTheConfiguration(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.guard(t)
	// entry changes the entry, and returns the result.
	entry := func(change func(*admissionv1.ValidatingWebhook)) (out admissionv1.ValidatingWebhook) {
		require.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
			var c admissionv1.ValidatingWebhookConfiguration
			if err := s.Get(t.Context(), client.ObjectKey{Name: s.configuration}, &c); err != nil {
				return err
			}
			i := slices.IndexFunc(c.Webhooks, func(w admissionv1.ValidatingWebhook) bool { return w.Name == guardFail })
			require.GreaterOrEqual(t, i, 0)
			out = c.Webhooks[i]
			if change == nil {
				return nil
			}
			change(&c.Webhooks[i])
			return s.Update(t.Context(), &c)
		}))
		return out
	}
	loosen := func(w *admissionv1.ValidatingWebhook) { w.FailurePolicy = new(admissionv1.Ignore) }
	strict := func() bool { return *entry(nil).FailurePolicy == admissionv1.Fail }
	excluded := []metav1.LabelSelectorRequirement{
		{Key: "control-plane", Operator: metav1.LabelSelectorOpDoesNotExist},
		{Key: metadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"gke-managed-system", "kube-system"}},
	}
	entry(func(w *admissionv1.ValidatingWebhook) {
		w.NamespaceSelector.MatchExpressions = append(w.NamespaceSelector.MatchExpressions, excluded...)
		loosen(w)
	})
	require.Eventually(t, strict, testenv.Long, testenv.Poll, "forbidden changes are reverted")
	require.Equal(t, excluded, entry(nil).NamespaceSelector.MatchExpressions[1:], "exclusions stay")

	entry(loosen)
	require.Eventually(t, strict, testenv.Long, testenv.Poll, "the first change is reverted at once")
	entry(loosen)
	require.Never(t, strict, 2*time.Second, testenv.Poll, "the next change is reverted later: the clock stands still")
	s.clock.SetTime(s.clock.Now().Add(time.Second))
	require.Eventually(t, strict, testenv.Long, testenv.Poll)
	require.Equal(t, excluded, entry(nil).NamespaceSelector.MatchExpressions[1:])
}
