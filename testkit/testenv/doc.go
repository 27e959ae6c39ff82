// Package testenv is the environment of integration tests: a cluster of the lab, managers in the process of the test that run the
// controllers and webhooks in question, and a namespace for each test that tells what happened in it.
//
//	s := testenv.Start(t, testenv.Config{CRDs: []string{".../apps.kruise.io_clonesets.yaml"}, Scheme: appsv1beta1.AddToScheme, Lab: lab.Config{Audit: true}})
//	s.Run(t, "cloneset", cloneset.Kind(), func(mgr ctrl.Manager) { ... })
//	g := testenv.New(t, s, "cloneset", &appsv1beta1.CloneSet{})
//	set := g.Await(t, func(set *appsv1beta1.CloneSet) bool { ... })
//
// A kind's own tests add what is theirs: how its object is built, and when it is at rest.
package testenv
