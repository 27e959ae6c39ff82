// Package testkit builds objects for tests. A builder starts from the smallest valid object and each method says one fact,
// so that a test reads as what it is about:
//
//	testkit.Pod("web-a").Rev("web-2").Ready(at).Obj()
//
// Builders are for tests only and may be used once: Obj returns the object being built. Package lab, below, runs real
// apiservers; package site runs controllers in one.
package testkit
