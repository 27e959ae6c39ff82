// Package testkit builds objects for tests. A builder starts from the smallest valid object and each method sets one thing, so
// that a test shows what it is about:
//
//	testkit.Pod("web-a").Rev("web-2").Ready(at).Obj()
//
// A builder can be used once: Obj returns the object being built. Package lab runs real clusters, testenv runs controllers in one of them,
// and sim runs controllers in a simulated cluster.
package testkit
