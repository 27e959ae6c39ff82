package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
)

// The default namespaces of both managers.
const oldNamespace, ourNamespace = "kruise-system", "flotilla-system"

// whiteLists is the ConfigMap in a manager's namespace in which its administrator lists what objects may name.
const whiteLists = scaletarget.ConfigMap

// workloadKeys returns the keys that hold kinds of workloads. whiteListKeys returns all keys.
func workloadKeys() []string {
	return []string{scaletarget.KeyPersistentPodState, scaletarget.KeyWorkloadSpread}
}

func whiteListKeys() []string { return append(workloadKeys(), scaletarget.KeySidecarSet) }

func migrateCopyCommand(open func() (conn, error)) *cobra.Command {
	from, to := oldNamespace, ourNamespace
	cmd := &cobra.Command{
		Use:   "copy",
		Short: "Copy what OpenKruise keeps in its own namespace",
		Long: "Copy what OpenKruise keeps in its own namespace, which is deleted with its release, to Flotilla's namespace: the\n" +
			"revisions of SidecarSets, which new pods may use, and the white lists in ConfigMap " + whiteLists + ".\n\n" +
			"Existing objects are left unchanged, so the command can be repeated. You need permission to read these objects in one\n" +
			"namespace and to create them in the other; Flotilla's manager has no permissions in OpenKruise's namespace.",
		Example: "  kubectl kruise migrate copy\n" +
			"  kubectl kruise migrate copy --from kruise-system --to flotilla-system --dry-run=server",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&from, "from", from, "the namespace of OpenKruise's manager")
	cmd.Flags().StringVar(&to, "to", to, "the namespace of Flotilla's manager")
	cmdutil.AddDryRunFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dry, err := cmdutil.GetDryRunStrategy(cmd)
		if err != nil {
			return err
		}
		if from == to {
			return fmt.Errorf("--to=%s: must differ from --from", to)
		}
		c, err := open()
		if err != nil {
			return err
		}
		had, err := keptIn(cmd.Context(), c.client, from)
		if err != nil {
			return err
		}
		have, err := keptIn(cmd.Context(), c.client, to)
		if err != nil {
			return err
		}
		return copyKept(cmd, c.client, dry, had, have)
	}
	return cmd
}

// kept is what a manager keeps in its namespace and can't recreate.
type kept struct {
	namespace string
	// revisions holds the revisions of SidecarSets. lists holds the whitelists by key.
	revisions []appsv1.ControllerRevision
	lists     map[string]string
	// config is the ConfigMap with the whitelists, or nil if it doesn't exist.
	config *corev1.ConfigMap
}

// keptIn reads what is kept in a namespace. It returns nothing if the namespace doesn't exist.
func keptIn(ctx context.Context, c client.Reader, namespace string) (kept, error) {
	out := kept{namespace: namespace, lists: map[string]string{}}
	var all appsv1.ControllerRevisionList
	if err := c.List(ctx, &all, client.InNamespace(namespace), client.HasLabels{keys.SidecarSetName}); err != nil {
		return kept{}, fmt.Errorf("list revisions of SidecarSets in namespace %s: %w", namespace, err)
	}
	out.revisions = all.Items
	var config corev1.ConfigMap
	err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: whiteLists}, &config)
	if apierrors.IsNotFound(err) {
		return out, nil
	}
	if err != nil {
		return kept{}, fmt.Errorf("get ConfigMap %s/%s: %w", namespace, whiteLists, err)
	}
	out.config = &config
	for _, key := range whiteListKeys() {
		if text, ok := config.Data[key]; ok {
			out.lists[key] = text
		}
	}
	return out, nil
}

// revision returns the revision with that name, or nil.
func (k kept) revision(name string) *appsv1.ControllerRevision {
	i := slices.IndexFunc(k.revisions, func(r appsv1.ControllerRevision) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return &k.revisions[i]
}

// missingFrom returns the names of the revisions and the keys of the whitelists that other has and k lacks.
func (k kept) missingFrom(other kept) (revisions, lists []string) {
	for i := range other.revisions {
		if name := other.revisions[i].Name; k.revision(name) == nil {
			revisions = append(revisions, name)
		}
	}
	for key := range other.lists {
		if _, ok := k.lists[key]; !ok {
			lists = append(lists, key)
		}
	}
	slices.Sort(revisions)
	slices.Sort(lists)
	return revisions, lists
}

// copyKept creates what had has and have lacks, and prints what it did.
func copyKept(cmd *cobra.Command, c client.Client, dry cmdutil.DryRunStrategy, had, have kept) error {
	var create []client.CreateOption
	var patch []client.PatchOption
	note := ""
	switch dry {
	case cmdutil.DryRunServer:
		create, patch, note = append(create, client.DryRunAll), append(patch, client.DryRunAll), " (server dry run)"
	case cmdutil.DryRunClient:
		note = " (dry run)"
	case cmdutil.DryRunNone:
	}
	say := func(format string, args ...any) error {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), format+note+"\n", args...)
		return err
	}
	for i := range had.revisions {
		r := &had.revisions[i]
		if there := have.revision(r.Name); there != nil {
			if !apiequality.Semantic.DeepEqual(there.Data.Raw, r.Data.Raw) {
				if _, err := fmt.Fprintf(cmd.ErrOrStderr(),
					"Warning: controllerrevision %s exists in namespace %s with different content and is left unchanged\n",
					r.Name, have.namespace); err != nil {
					return err
				}
			}
			continue
		}
		if dry != cmdutil.DryRunClient {
			err := c.Create(cmd.Context(), copied(r, have.namespace), create...)
			if err != nil && !apierrors.IsAlreadyExists(err) { // Our manager may have created it meanwhile.
				return fmt.Errorf("create ControllerRevision %s/%s: %w", have.namespace, r.Name, err)
			}
		}
		if err := say("controllerrevision.apps/%s copied", r.Name); err != nil {
			return err
		}
	}
	_, missing := have.missingFrom(had)
	if len(missing) > 0 && dry != cmdutil.DryRunClient {
		if err := writeLists(cmd.Context(), c, had, have, missing, create, patch); err != nil {
			return err
		}
	}
	for _, key := range missing {
		if err := say("configmap/%s: %s copied", whiteLists, key); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(had.lists)) {
		if text, ok := have.lists[key]; ok && text != had.lists[key] {
			if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "Warning: %s of configmap %s differs in namespace %s and is left unchanged\n", key, whiteLists,
				have.namespace); err != nil {
				return err
			}
		}
	}
	return nil
}

// copied returns a copy of a revision for another namespace. Its owner is still its SidecarSet, which is cluster-scoped.
func copied(r *appsv1.ControllerRevision, namespace string) *appsv1.ControllerRevision {
	out := r.DeepCopy()
	out.ObjectMeta = metav1.ObjectMeta{
		Name: r.Name, Namespace: namespace, Labels: r.Labels, Annotations: r.Annotations, OwnerReferences: r.OwnerReferences,
	}
	return out
}

// writeLists writes the missing whitelists.
func writeLists(
	ctx context.Context, c client.Client, had, have kept, missing []string, create []client.CreateOption, patch []client.PatchOption,
) error {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: have.namespace, Name: whiteLists}}
	if have.config != nil {
		config = have.config.DeepCopy()
	}
	if config.Data == nil {
		config.Data = map[string]string{}
	}
	for _, key := range missing {
		config.Data[key] = had.lists[key]
	}
	var err error
	if have.config != nil { // The precondition protects a key that another client adds meanwhile.
		err = c.Patch(ctx, config, client.MergeFromWithOptions(have.config, client.MergeFromWithOptimisticLock{}), patch...)
	} else {
		err = c.Create(ctx, config, create...)
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", have.namespace, whiteLists, err)
	}
	return nil
}
