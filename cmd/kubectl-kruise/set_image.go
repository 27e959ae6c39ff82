package main

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

func setImageCommand(open func() (conn, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image (TYPE NAME | TYPE/NAME) CONTAINER=IMAGE...",
		Short: "Change the images of containers",
		Long:  "Change the images of containers, init containers too. \"*\" is all of them.",
		Example: "  kubectl kruise set image cloneset/demo nginx=nginx:1.29\n" +
			"  kubectl kruise set image clone demo app=shop:2.0 sidecar=proxy:1.4\n" +
			"  kubectl kruise set image clone --all '*=nginx:1.29'",
	}
	f := changes(cmd, "kubectl-set")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		objects, pairs, err := cmdutil.GetResourcesAndPairs(args, "image")
		if err != nil {
			return err
		}
		images, _, err := cmdutil.ParsePairs(pairs, "image", false)
		switch {
		case err != nil:
			return err
		case len(images) == 0:
			return errors.New("name the image: CONTAINER=IMAGE, or *=IMAGE for all containers")
		case images["*"] != "" && len(images) > 1:
			return errors.New("*=IMAGE is for all containers and can't be combined with CONTAINER=IMAGE")
		}
		c, err := open()
		if err != nil {
			return err
		}
		return f.each(cmd, c, objects, setImages(images))
	}
	return cmd
}

func setImages(images map[string]string) edit {
	return func(_ context.Context, set workload) (string, []string, error) {
		done := ""
		for _, name := range slices.Sorted(maps.Keys(images)) {
			err := set.each(name, func(c container) error {
				if c["image"] != images[name] {
					c["image"], done = images[name], "image updated"
				}
				return nil
			})
			if err != nil {
				return "", nil, err
			}
		}
		return done, nil, nil
	}
}
