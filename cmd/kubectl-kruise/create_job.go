package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// instantiated is the annotation that kubectl sets on Jobs that it creates from a CronJob.
const instantiated = "cronjob.kubernetes.io/instantiate"

// fromCron reports whether create has a flag --from that names an AdvancedCronJob. All other calls are left to kubectl.
func fromCron(args []string) bool {
	for i, arg := range args {
		if arg == "--" {
			return false
		}
		from, given := strings.CutPrefix(arg, "--from=")
		if arg == "--from" && i+1 < len(args) {
			from, given = args[i+1], true
		}
		resource, _, _ := strings.Cut(strings.ToLower(from), "/")
		resource, _, _ = strings.Cut(resource, ".")
		if given && slices.Contains([]string{"advancedcronjob", "advancedcronjobs", "acj"}, resource) {
			return true
		}
	}
	return false
}

// createFromCron creates a Job, BroadcastJob or ImageListPullJob from the template of an AdvancedCronJob. cmd is create, which doesn't parse
// its flags.
func createFromCron(cmd *cobra.Command, open func() (conn, error), args []string) error {
	const usage = "create job NAME --from=advancedcronjob/NAME"
	f, from, image := &creation{}, "", ""
	parsed := &cobra.Command{
		Use: usage, Short: "Create a Job, BroadcastJob or ImageListPullJob from the template of an AdvancedCronJob",
	}
	parsed.SetContext(cmd.Context())
	parsed.SetOut(cmd.OutOrStdout())
	parsed.Flags().AddFlagSet(cmd.Root().PersistentFlags())
	f.flags(parsed, "kubectl-create")
	parsed.Flags().StringVar(&from, "from", "", "the AdvancedCronJob, as advancedcronjob/NAME")
	parsed.Flags().StringVar(&image, "image", "", "an image; can't be used with --from")
	switch err := parsed.ParseFlags(args); {
	case errors.Is(err, pflag.ErrHelp):
		return parsed.Help()
	case err != nil:
		return fmt.Errorf("%w: with --from, only --dry-run, --output, --field-manager and global flags are supported", err)
	}
	if args = parsed.Flags().Args(); image != "" || parsed.Flags().ArgsLenAtDash() >= 0 {
		return errors.New("--from can't be combined with --image or a command: the template of the AdvancedCronJob has both")
	}
	if len(args) != 2 {
		return errors.New("exactly one name is required: " + usage)
	}
	if err := f.complete(parsed); err != nil {
		return err
	}
	c, err := open()
	if err != nil {
		return err
	}
	cron, err := f.cron(c, from)
	if err != nil {
		return err
	}
	job, err := jobFrom(cron, args[1])
	if err != nil {
		return err
	}
	if typed := strings.ToLower(args[0]); typed != "job" && typed != strings.ToLower(job.GetKind()) {
		return fmt.Errorf("create %s: %s creates a %s: run kubectl kruise create job %s --from=%s", args[0], from, job.GetKind(), args[1], from)
	}
	return f.write(parsed, c.client, job, "created")
}

// cron reads the AdvancedCronJob that --from names.
func (f *creation) cron(c conn, from string) (*unstructured.Unstructured, error) {
	infos, err := f.find(c, []string{from})
	if err != nil {
		return nil, fmt.Errorf("--from=%s: %w", from, err)
	}
	if gvk := infos[0].Mapping.GroupVersionKind; len(infos) != 1 || gvk.Group != group || gvk.Kind != "AdvancedCronJob" {
		return nil, fmt.Errorf("--from=%s: name one AdvancedCronJob of %s", from, group)
	}
	return unstructuredOf(infos[0])
}

// jobFrom returns a job from the template of cron. Its owner is cron, as for a Job that kubectl creates from a CronJob. blockOwnerDeletion is
// not set: it would require permission to change cron's finalizers. The annotation with the time of a scheduled run is left out.
func jobFrom(cron *unstructured.Unstructured, name string) (*unstructured.Unstructured, error) {
	own := cron.GroupVersionKind().GroupVersion()
	var jobKind schema.GroupVersionKind
	var template map[string]any
	for field, gvk := range map[string]schema.GroupVersionKind{
		"jobTemplate":              batchv1.SchemeGroupVersion.WithKind("Job"),
		"broadcastJobTemplate":     own.WithKind("BroadcastJob"),
		"imageListPullJobTemplate": own.WithKind("ImageListPullJob"),
	} {
		jobTemplate, set, err := unstructured.NestedMap(cron.Object, "spec", "template", field)
		switch {
		case err != nil:
			return nil, fmt.Errorf("AdvancedCronJob %s: %w", cron.GetName(), err)
		case set && template != nil:
			return nil, fmt.Errorf("AdvancedCronJob %s: spec.template has more than one template: keep only one", cron.GetName())
		case set:
			jobKind, template = gvk, jobTemplate
		}
	}
	if template == nil {
		return nil, fmt.Errorf("AdvancedCronJob %s: spec.template has no template that %s knows", cron.GetName(), own.Version)
	}
	metadata, err := metadataOf(template)
	if err != nil {
		return nil, fmt.Errorf("AdvancedCronJob %s: metadata of its template: %w", cron.GetName(), err)
	}
	annotations := map[string]string{instantiated: "manual"}
	maps.Copy(annotations, metadata.Annotations)
	delete(annotations, keys.ScheduledAt) // This is not a scheduled run.

	job := &unstructured.Unstructured{Object: map[string]any{}}
	job.SetGroupVersionKind(jobKind)
	job.SetNamespace(cron.GetNamespace())
	job.SetName(name)
	job.SetLabels(metadata.Labels)
	job.SetAnnotations(annotations)
	job.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: cron.GetAPIVersion(), Kind: cron.GetKind(), Name: cron.GetName(), UID: cron.GetUID(), Controller: new(true),
	}})
	if spec, ok := template["spec"]; ok {
		job.Object["spec"] = spec
	}
	return job, nil
}

// metadataOf reads the metadata of a template.
func metadataOf(template map[string]any) (metav1.ObjectMeta, error) {
	out := metav1.ObjectMeta{}
	fields, _, err := unstructured.NestedMap(template, "metadata")
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &out)
	}
	return out, err
}
