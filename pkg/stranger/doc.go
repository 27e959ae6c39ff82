// Package stranger finds pods that a workload's selector selects and that are not of the workload: they make who counts by the
// selector, as an HPA does, count wrong. Those of nobody may be taken over by a kind that does so.
package stranger
