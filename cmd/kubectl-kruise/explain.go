package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-io/flotilla/apis/keys"
)

func explainCommand(open func() (conn, error)) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "explain (pod NAME | -f FILE)",
		Short: "Show what the pod webhook does to a pod, and why",
		Long: "Show what each feature of the pod webhook would do to a new pod, or why it would do nothing. The pod is an existing\n" +
			"one, as if it were created again, or one in a file. It is created by dry run, so nothing is stored.",
		Example: "  kubectl kruise explain pod db-0\n" +
			"  kubectl kruise explain -f pod.yaml",
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file with a Pod, or - for standard input")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := open()
		if err != nil {
			return err
		}
		var pod *corev1.Pod
		switch {
		case file != "" && len(args) == 0:
			pod, err = podIn(cmd.InOrStdin(), file, c.namespace)
		case file == "" && len(args) == 2 && (args[0] == "pod" || args[0] == "pods" || args[0] == "po"):
			pod, err = recreatedPod(cmd.Context(), c, args[1])
		default:
			return errors.New("name a pod, as in \"explain pod db-0\", or give a file with -f")
		}
		if err != nil {
			return err
		}
		lines, err := dryRunPod(cmd.Context(), c.cfg, pod)
		if err != nil {
			return err
		}
		for _, line := range lines {
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), line); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

// podIn reads a pod from a file.
func podIn(in io.Reader, file, namespace string) (*corev1.Pod, error) {
	var text []byte
	var err error
	if file == "-" {
		text, err = io.ReadAll(in)
	} else {
		text, err = os.ReadFile(file) //nolint:gosec // The user names it.
	}
	if err != nil {
		return nil, fmt.Errorf("read the pod: %w", err)
	}
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(text, pod); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if pod.Kind != "Pod" {
		return nil, fmt.Errorf("read %s: it contains a %q: give a file with one Pod", file, pod.Kind)
	}
	if pod.Namespace == "" {
		pod.Namespace = namespace
	}
	return pod, nil
}

// recreatedPod returns an existing pod in a form in which it could be created again. It includes what admission added to it the first time.
func recreatedPod(ctx context.Context, c conn, name string) (*corev1.Pod, error) {
	live := &corev1.Pod{}
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, live); err != nil {
		return nil, fmt.Errorf("get pod %s: %w", name, err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: live.Namespace, Name: live.Name, Labels: live.Labels, Annotations: live.Annotations, OwnerReferences: live.OwnerReferences,
		},
		Spec: *live.Spec.DeepCopy(),
	}
	pod.Spec.NodeName = ""
	for i := range pod.OwnerReferences { // It needs a permission that is of no use here.
		pod.OwnerReferences[i].BlockOwnerDeletion = nil
	}
	return pod, nil
}

// warningCollector collects warnings from the apiserver.
type warningCollector struct {
	mu    sync.Mutex
	lines []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warningCollector) HandleWarningHeader(code int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if code == 299 && text != "" {
		w.lines = append(w.lines, text)
	}
}

// dryRunPod dry-runs the creation of the pod, and returns what the webhook says, or why it says nothing.
func dryRunPod(ctx context.Context, cfg *rest.Config, pod *corev1.Pod) ([]string, error) {
	warnings := &warningCollector{}
	cfg = rest.CopyConfig(cfg)
	cfg.WarningHandler = warnings
	pods, err := corev1client.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[keys.ExplainSteps] = ""
	_, err = pods.Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil && !apierrors.IsAlreadyExists(err) { // The apiserver detects that only after admission.
		return nil, fmt.Errorf("create the pod by a dry run: %w", err)
	}
	if len(warnings.lines) == 0 {
		return []string{fmt.Sprintf("No feature changes pods in namespace %s: they are not sent to the pod webhook, because no object there needs it "+
			"or the namespace is exempt.", pod.Namespace)}, nil
	}
	return warnings.lines, nil
}
