// Package testenv is the environment of integration tests: a part of a cluster that all packages share, managers in the test's process with
// the controllers and webhooks under test, and a namespace for each test with access to the writes in it.
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
//	s := testenv.Start(t, testenv.Config{Scheme: appsv1beta1.AddToScheme})
//	s.Run(t, "cloneset", cloneset.Kind(), func(mgr ctrl.Manager) { ... })
//	g := testenv.New(t, s, "cloneset", &appsv1beta1.CloneSet{})
//	set := g.Await(t, func(set *appsv1beta1.CloneSet) bool { ... })
//
// The tests of a kind add how to build its object, and when its rollout is complete.
//
// make integration starts the cluster once for the whole run. A test that changes what others rely on, such as node labels or the processes
// of the cluster, requests its own.
package testenv
