package sim

import "testing"

// Benchmark plays scenarios without faults. It reports as writes/pod how many writes the controller sends for each of a workload's pods. The
// figure is the same on every machine, so each scenario is played once, and the time is meaningless. It is at least as high as on a real
// cluster, because the simulated world waits until the controller has reacted to each change.
func Benchmark(b *testing.B, k Kind, pods int, scenarios ...Scenario) {
	b.Helper()
	k.Rules = nil // Tests check them.
	for _, s := range scenarios {
		r := Run(b.Context(), k, s, Schedule{})
		if r.Err != nil {
			b.Fatal(r.Err)
		}
		b.Run(s.Name, func(b *testing.B) {
			for b.Loop() { // There is nothing to time.
			}
			b.ReportMetric(float64(r.Writes)/float64(pods), "writes/pod")
			b.ReportMetric(0, "ns/op")
		})
	}
}
