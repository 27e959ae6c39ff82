// Package pass does what a plan for the pods of a workload says, and tells about it: in the log, in events, in conditions and
// in metrics. podset.Plan is the plan.
//
// The idea: a pass writes in classes, all pods of one step at a time, and an error in one class does not stop the others. A
// kind calls the classes in the order that suits it, with its own between them:
//
//	d := pass.Applier{...}
//	d.Revise(ctx, w, &done)        the new revision, without which nothing else may be done
//	d.Disown, d.Delete, d.Write    pods that go, and pods that change
//	d.Create                       pods that come
//	done.Failures, done.Events     what became of all that
//
// What it won't do: decide anything.
package pass
