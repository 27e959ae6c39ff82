// Package history reads and writes the revisions of a workload; pkg/revision, which is pure, says what they hold and which
// ones there shall be.
//
//	all := history.List(...)                       the owner's revisions, oldest first
//	step := revision.Next(all, want)               what to do
//	writer.Write(ctx, owner, step)                 do it, and expect the cache to show it
package history
