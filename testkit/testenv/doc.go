// Package testenv is the environment of integration tests: a part of a cluster that all packages share, managers in the process
// of the test with the controllers and webhooks in question, and a namespace for each test with the writes to it.
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
//	s := testenv.Start(t, testenv.Config{Scheme: appsv1beta1.AddToScheme})
//	s.Run(t, "cloneset", cloneset.Kind(), func(mgr ctrl.Manager) { ... })
//	g := testenv.New(t, s, "cloneset", &appsv1beta1.CloneSet{})
//	set := g.Await(t, func(set *appsv1beta1.CloneSet) bool { ... })
//
// The tests of a kind add how its object is built, and when its rollout is complete.
//
// make integration starts the cluster once for the whole run. A test that changes what others rely on, such as the labels of
// nodes or the processes of the cluster, asks for one of its own.
package testenv
